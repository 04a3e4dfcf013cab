// SPDX-License-Identifier: MIT
// Builders of kernel graphs, and the check that a lowered and compiled kernel computes what the
// interpreter computes.
#pragma once
#include <optional>

#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "tests/support/compiled_kernel.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::tests {

// Short forms for graphs of one context.
class KernelBuilder {
 public:
  explicit KernelBuilder(ir::UOpContext& ctx) : ctx(ctx) {}
  ir::UOp Buffer(int64_t slot, ir::Dtype dtype, int64_t elements);
  ir::UOp Loop(int64_t size) { return Loop(ctx.Idx(size)); }
  ir::UOp Loop(ir::UOp size) { return ir::Range(ctx, size, next_axis_++, ir::AxisType::LOOP); }
  ir::UOp Reduced(int64_t size) { return Reduced(ctx.Idx(size)); }
  ir::UOp Reduced(ir::UOp size) { return ir::Range(ctx, size, next_axis_++, ir::AxisType::REDUCE); }
  ir::UOp At(ir::UOp a, int64_t stride, ir::UOp b) {
    return ir::Add(ctx, ir::Mul(ctx, a, ctx.Idx(stride)), b);
  }
  ir::UOp Load(ir::UOp buffer, ir::UOp at, ir::UOp gate = {}) {
    return ir::Load(ctx, ir::Index(ctx, buffer, at, gate));
  }
  ir::UOp StoreLoops(ir::UOp buffer, ir::UOp at, ir::UOp value,
                     std::initializer_list<ir::UOp> loops, ir::UOp gate = {});
  ir::UOp Kernel(std::initializer_list<ir::UOp> statements);

  ir::UOpContext& ctx;

 private:
  int64_t next_axis_ = 0;
};

// C (m x n) = A B over k; A is k x m in memory if transpose_a, B is n x k if transpose_b.
ir::UOp MatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, bool transpose_a,
                     bool transpose_b, ir::Dtype dtype = ir::Dtype::F32);

struct CheckOptions {
  Target target;
  codegen::Options options;
  std::map<std::string, int64_t> variables;
  CompiledText::Language language = CompiledText::kC;
  double tolerance =
      0;  // relative to the largest magnitude of its buffer; 0: equal bits, but any NaN equals any
  double ulps = 0;  // or this many units in the last place
};

// Runs the kernel over `memory` both ways and compares every buffer. An empty text means they
// agree.
std::string CheckKernel(ir::UOpContext& ctx, ir::UOp sink, const Memory& memory,
                        const CheckOptions& check);

// Bytes for n elements of a dtype: interesting values first, then random ones.
std::vector<uint8_t> SampleBuffer(ir::Dtype dtype, int64_t n, uint64_t seed, bool tame);

}  // namespace uopd::tests
