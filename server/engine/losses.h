// SPDX-License-Identifier: MIT
// Losses: what happens to programs and sessions when a device is lost.
//
// A session is told once, with DATA_LOSS, which of its buffers were lost with their devices
// (buffer_store.h). The first call after a loss says it, whatever the call is about.
//
// Thread-safe. Calls about a session are made on its strand.
#pragma once
#include "server/engine/base/device_set.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/content/content_store.h"
#include "server/engine/session/session_table.h"

namespace uopd::engine {

class Losses {
 public:
  // The arguments outlive this object.
  Losses(DeviceSet& devices, CompileService& compile, ContentStore& contents,
         SessionTable& sessions)
      : devices_(devices), compile_(compile), contents_(contents), sessions_(sessions) {}

  // Lets go of everything that is on devices that were lost since the last call.
  void Note();
  // BufferStore::TakeLoss. After a loss it also lets go of everything else.
  absl::Status Take(Session& session);
  // The error of a call, or, if buffers of the session were lost with a device, what is lost.
  absl::Status Explain(Session& session, absl::Status error);

 private:
  DeviceSet& devices_;
  CompileService& compile_;
  ContentStore& contents_;
  SessionTable& sessions_;
};

}  // namespace uopd::engine
