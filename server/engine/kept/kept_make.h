// SPDX-License-Identifier: MIT
// Makes the kept values of a program in the background, and checks that they change no bit.
//
//   prologue     computes the values into memory of the session
//      │ not checked yet with these contents of the stable slots
//   probes       for each probe (probe.h): the undivided program, and the main program over the
//      │         values, get memory of their own, and the same random contents for all slots that
//      │         are not stable
//   end          the written slots have equal bytes, or not
//
// No call of the client waits for this, and no call sees its memory. The stable slots are read
// while the client may write to them: then whatever was found is worthless, which the caller tells
// from their versions (kept_runs.h).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "server/engine/kept/probe.h"
#include "server/engine/run/run_service.h"

namespace uopd::engine {

struct KeptMake {
  enum class Outcome : uint8_t {
    kSame,     // the values are made, and change no bit
    kDiffers,  // the divided program computes other bits
    kFailed,   // memory was short, or the session is gone, or the daemon ends: nothing is known
  };
  using Done = absl::AnyInvocable<void(Outcome)>;

  Caller caller;
  std::function<bool()> cancelled;  // nobody wants the values any more
  std::shared_ptr<const Program> undivided, prologue, main;
  size_t first_slot = 0;                                 // of the values, in `prologue` and `main`
  std::vector<std::shared_ptr<devices::Buffer>> stable;  // by slot; null: not stable
  // The memory of the values, which is taken when the making begins. An error: there is none, or
  // nobody needs them any more.
  std::function<absl::StatusOr<std::vector<std::shared_ptr<devices::Buffer>>>()> take_values;
  std::vector<int64_t> variables, main_variables;
  // None: equal contents of the stable slots have passed them.
  std::span<const ProbeKind> probes;
  std::shared_ptr<Quota> quota;
  RunLimits limits;
};

// Calls `done` once, on any thread. REQUIRES: `watch` and `task_pool` live until then.
void StartKeptMake(KeptMake make, RunWatch& watch, TaskPool& task_pool, KeptMake::Done done);

}  // namespace uopd::engine
