// SPDX-License-Identifier: MIT
// Codegen: one kernel graph (core/schedule/schedule.h) becomes a linear kernel that renderers turn
// into text.
//
// Runs after the scheduler and before a renderer (core/render); docs/codegen/passes.md lists the
// passes.
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
#include "core/codegen/kernel_info.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct Options {
  bool noopt = false;      // run neither the heuristic nor the choice of a loop order
  bool fast_math = false;  // allow identities of real numbers that change IEEE results
  const std::vector<Opt>* opts = nullptr;  // if set: apply exactly these, skip the heuristic
  bool draft =
      false;  // shrink what the heuristic chose, for a quick compile (opts/choose/draft_opts.h)
};

struct LoweredKernel : KernelInfo {
  ir::UOp linear;  // LINEAR, in the caller's context
};

// Version of the output of Lower; part of the environment key of cached kernels. Raise it with
// every change of that output.
inline constexpr int kCodegenVersion = 40;

// REQUIRES: sink passed ir::Verify(..., Level::kKernel). INVALID_ARGUMENT if an opt of
// Options::opts does not apply, UNIMPLEMENTED if the target lacks a dtype.
absl::StatusOr<LoweredKernel> Lower(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                    const Options& options);

}  // namespace uopd::codegen
