// SPDX-License-Identifier: MIT
// Runs prepared programs: binds arguments to slots, launches the steps in order, returns what was asked for.
//
// Stateless; thread-safe as far as its arguments are: calls that use the same buffers are ordered by the caller (a
// session's strand). All errors about arguments come before anything is changed. What a failed run had begun to write is
// unspecified; buffers that it would have made are not made.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "server/engine/buffer_store.h"
#include "server/engine/program.h"
#include "server/engine/request_context.h"
#include "server/engine/result_memory.h"

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
};

struct RunLimits {
  int64_t max_return_bytes = 16 << 20;  // of return_data in all
  int debug = 0;                        // 2: a log line per kernel
};

absl::StatusOr<ExecuteResult> RunProgram(RequestContext& request, const Program& program,
                                         BufferStore& buffers, const RunCall& call,
                                         const RunLimits& limits);

}  // namespace uopd::engine
