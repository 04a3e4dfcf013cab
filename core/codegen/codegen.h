// SPDX-License-Identifier: MIT
// Codegen: one kernel graph (core/schedule/schedule.h) becomes a linear kernel that renderers turn
// into text.
//
// Runs after the scheduler and before a renderer (core/render); docs/codegen.md lists the passes.
//
// A linear kernel is one LINEAR node whose sources are the lines in order of execution;
// docs/ir_linear.md lists the ops that may occur.
//
// Invariants of a linear kernel
//   (1) The sources of a line are earlier lines.
//   (2) Loops are RANGE ... END pairs, properly nested.
//   (3) Accumulators are BUFFER {REG}; vectors are values of shape (n,).
//   (4) Index arithmetic is i32 or i64.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/codegen/launch_size.h"
#include "core/codegen/opts/opt.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct Options {
  bool noopt = false;      // run neither the heuristic nor the choice of a loop order
  bool fast_math = false;  // allow identities of real numbers that change IEEE results
  const std::vector<Opt>* opts = nullptr;  // if set: apply exactly these, skip the heuristic
  bool draft =
      false;  // shrink what the heuristic chose, for a quick compile (opts/choose/draft_opts.h)
};

struct BufferUse {
  ir::Dtype dtype = ir::Dtype::Void;
  int64_t elements = 0;  // size of the buffer with every variable at its maximum
  bool read = false, written = false;
};

struct LoweredKernel {
  ir::UOp linear;    // LINEAR, in the caller's context
  std::string name;  // a C identifier, from the kernel's shape: the same graph has the same name
  std::vector<BufferUse> buffers;      // by PARAM slot
  std::vector<std::string> variables;  // order of the `vars` array at launch
  LaunchGeometry launch;
  std::vector<Opt> applied;
  // Estimates for one launch with every variable at its maximum. `estimate_ns` assumes a slow core
  // (passes/polls.h): it tells long kernels from short ones.
  double flops = 0, bytes = 0, estimate_ns = 0;
  DtypeNumber dtype = DtypeNumber::Void;  // of most operations (estimate.h)
  bool polls = false;                     // the kernel checks its stop word while it runs
};

// Version of the output of Lower; part of the environment key of cached kernels. Raise it with
// every change of that output.
inline constexpr int kCodegenVersion = 39;

// REQUIRES: sink passed ir::Verify(..., Level::kKernel). INVALID_ARGUMENT if an opt of
// Options::opts does not apply, UNIMPLEMENTED if the target lacks a dtype.
absl::StatusOr<LoweredKernel> Lower(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                    const Options& options);

}  // namespace uopd::codegen
