// SPDX-License-Identifier: MIT
// Lets runs for which no client waits give way to the runs of clients.
//
// A device counts the runs of clients that it has now. A run in the background
// (RequestContext::background) pauses after each of its steps, so that it takes a tenth of the time
// while clients use the device, and all of it otherwise. A low priority of its thread would not do:
// the threads of a kernel wait for each other, so two runs that get the processors in turn take
// longer than one after the other.
//
// That is for devices that run inline. What is queued on another device is queued at once.
#pragma once
#include <chrono>

#include "server/engine/compile/program/program.h"
#include "server/engine/run/run_control.h"

namespace uopd::engine {

// Counts one run of a client, on all devices of its program, from its first step until its devices
// are done. The program outlives it.
class ClientRun {
 public:
  explicit ClientRun(const Program& program) : program_(program) {
    for (DeviceState* device : program_.devices) device->client_runs().Begin();
  }
  ~ClientRun() {
    for (DeviceState* device : program_.devices) device->client_runs().End();
  }
  ClientRun(const ClientRun&) = delete;
  ClientRun& operator=(const ClientRun&) = delete;

 private:
  const Program& program_;
};

// A run that gives way takes at most so many times as long as its steps.
inline constexpr int kMostSlowdown = 10;

// The pause after a step that took `worked`. It ends early when the device has no run of a client,
// or when the run must end.
void GiveWay(DeviceState& device, std::chrono::nanoseconds worked, RunControl& control);

}  // namespace uopd::engine
