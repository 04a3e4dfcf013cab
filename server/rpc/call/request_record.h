// SPDX-License-Identifier: MIT
// What is counted, timed and logged when a request ends: a call, or one message of a Pipeline,
// which counts as the call that it stands for.
#pragma once
#include <cstdint>

#include "server/engine/engine.h"
#include "server/rpc/call/audience.h"

namespace uopd::rpc {

// Makes the counters of faults, at 0. Called before the first request.
void ShowFaults();

// Called once for each request, when its answer is complete.
void RecordEnd(const engine::Engine& engine, Method method, engine::RequestContext& request,
               const absl::Status& status);

// The daemon waited this long for the client to send or to take bytes.
void RecordWire(const engine::RequestContext& request, int64_t ns);

}  // namespace uopd::rpc
