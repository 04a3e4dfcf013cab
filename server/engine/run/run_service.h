// SPDX-License-Identifier: MIT
// Runs prepared programs: binds arguments to slots, queues the steps in order, and returns the
// requested data.
//
//   StartRun ── arguments checked ── filled ── steps queued ── results queued ─┐ this thread
//                                                                             │ the devices work;
//                                                                             │ no thread waits
//   done ◄── buffers of the run kept or lost ◄── every stream has reached its end
//
// If the devices run inline, all work is done before StartRun returns, and `done` is called in
// StartRun. Otherwise the last device to finish posts the end of the run to `task_pool`.
//
// A run that finds no memory while preempted work ends (preemptible.h) begins again after that.
//
// RunControl decides whether a run ends early. A run that cannot be done within limits.run_ms is
// RESOURCE_EXHAUSTED at once; a run that takes longer is RESOURCE_EXHAUSTED later.
//
// Stateless. Thread-safe as far as the arguments are: the caller orders calls that use the same
// buffers (by a session's strand). All errors about arguments come before anything is changed. If a
// run fails, buffers that it would have made are not made, and buffers that it may have written are
// lost (buffer_store.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/engine/base/preemptible.h"
#include "server/engine/base/request_context.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/compile/program/program.h"
#include "server/engine/run/run_control.h"
#include "server/engine/session/buffer_store.h"
#include "server/engine/session/result_memory.h"

namespace uopd::engine {

// What a slot is bound to. See Argument in uopd.proto.
struct Argument {
  uint64_t buffer = 0;
  std::optional<std::string_view> data;
  bool return_data = false;
  // The daemon's own memory for a slot that no client knows (kept/kept_runs.h). Null: none.
  std::shared_ptr<devices::Buffer> memory;
};

struct RunCall {
  std::span<const Argument> arguments;  // by slot; if there are fewer, the last are unbound
  std::span<const int64_t> variables;
  std::span<const uint64_t> free_buffers;  // freed after a run that succeeded
  bool* maybe_lost = nullptr;              // set to true if the run failed and left buffers lost
};

struct RunLimits {
  int64_t max_return_bytes = 16 << 20;  // of all returned data together
  int log_level = 0;                    // debug.level; 2: one log line per kernel
  RunTerms terms;
};

// What a run works with. The references, the data of the context and the spans of `call` stay valid
// until `done` is called.
struct RunInput {
  RequestContext& request;
  std::shared_ptr<const Program> program;
  BufferStore& buffers;
  RunCall call;
  RunLimits limits;
  RunWatch& watch;
  TaskPool& task_pool;
  // Work that gives up its memory for the run. The run waits for its end. Null: there is none.
  PreemptibleTable* maybe_preemptible = nullptr;
  // Called at most once, if memory is short before anything was changed: turns the run into one
  // that holds less memory. The run begins again. Null: there is no such run.
  absl::AnyInvocable<void(RunInput&)> maybe_need_less;
};
using RunDone = absl::AnyInvocable<void(absl::StatusOr<ExecuteResult>)>;

// Calls `done` once: before StartRun returns, or on a thread of the task pool.
void StartRun(RunInput input, RunDone done);

}  // namespace uopd::engine
