// SPDX-License-Identifier: MIT
// Runs prepared programs: binds arguments to slots, launches the steps in order, returns what was
// asked for.
//
// A run ends early when RunControl says so: RESOURCE_EXHAUSTED at once where it cannot be done
// within limits.run_ms, later where it takes longer.
//
// Stateless; thread-safe as far as its arguments are: calls that use the same buffers are ordered
// by the caller (a session's strand). All errors about arguments come before anything is changed.
// Buffers that a run would have made are not made when it fails. Those that it may have written
// before it failed are lost (buffer_store.h).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "server/engine/base/request_context.h"
#include "server/engine/compile/program.h"
#include "server/engine/run/run_control.h"
#include "server/engine/session/buffer_store.h"
#include "server/engine/session/result_memory.h"

namespace uopd::engine {

// What a slot is bound to; see Argument in uopd.proto.
struct Argument {
  uint64_t buffer = 0;
  std::optional<std::string_view> data;
  bool return_data = false;
};

struct RunCall {
  std::span<const Argument> arguments;  // by slot; fewer than slots leaves the last ones unbound
  std::span<const int64_t> variables;
  std::span<const uint64_t> free_buffers;  // after a run that succeeded
  bool* maybe_lost = nullptr;              // set when a run that failed has left buffers lost
};

struct RunLimits {
  int64_t max_return_bytes = 16 << 20;  // of return_data in all
  int debug = 0;                        // 2: a log line per kernel
  RunTerms terms;
};

absl::StatusOr<ExecuteResult> RunProgram(RequestContext& request, const Program& program,
                                         BufferStore& buffers, const RunCall& call,
                                         const RunLimits& limits, RunWatch& watch);

}  // namespace uopd::engine
