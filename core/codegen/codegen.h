// SPDX-License-Identifier: MIT
// Codegen: one kernel graph (core/schedule/schedule.h) becomes a linear program that renderers turn
// into text.
//
// A linear program is LINEAR of lines in order of execution; docs/ir.md, "Programs", lists what may
// stand in it. Every line's sources come before it. Loops are RANGE ... END pairs, properly nested;
// accumulators are BUFFER {REG}; vectors are values of shape (n,); index arithmetic is i32 or i64.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/target.h"
#include "core/codegen/launch_size.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// One scheduling decision. `axis` counts the kernel's ranges as written in docs/codegen.md; amount
// 0 is the whole axis.
enum class OptKind : uint8_t { kUpcast, kUnroll, kThread, kVector };
struct Opt {
  OptKind kind = OptKind::kUpcast;
  int axis = 0;
  int64_t amount = 0;
  bool operator==(const Opt&) const = default;
};
std::string Text(const Opt& opt);  // "UPCAST(0, 4)"

struct Options {
  bool noopt = false;  // no heuristic
  bool fast_math = false;
  const std::vector<Opt>* opts = nullptr;  // exactly these instead of the heuristic's
};

struct BufferUse {
  ir::Dtype dtype = ir::Dtype::Void;
  int64_t elements = 0;  // size that the kernel's indices were checked against
  bool read = false, written = false;
};

struct LoweredKernel {
  ir::UOp program;   // LINEAR, in the caller's context
  std::string name;  // a C identifier, from the kernel's shape: the same graph has the same name
  std::vector<BufferUse> buffers;      // by PARAM slot
  std::vector<std::string> variables;  // order of the `vars` array at launch
  LaunchGeometry launch;
  std::vector<Opt> applied;
  // Estimates for one launch with variables at their largest. estimate_ns is what a slow device
  // takes: for telling long kernels from short ones (passes/polls.h).
  double flops = 0, bytes = 0, estimate_ns = 0;
  bool polls = false;  // the program looks whether it is to stop
};

// Version of what Lower does; part of the environment key of cached kernels. Raise it with every
// change of output.
inline constexpr int kCodegenVersion = 8;

// REQUIRES: sink passed ir::Verify(..., Stage::kKernel). INVALID_ARGUMENT for an opt in
// Options::opts that does not apply.
absl::StatusOr<LoweredKernel> Lower(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                    const Options& options);

}  // namespace uopd::codegen
