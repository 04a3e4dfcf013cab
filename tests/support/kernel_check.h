// SPDX-License-Identifier: MIT
// Builders of kernel graphs, and CheckKernel: lowers and compiles a kernel, runs it and compares
// the result with that of the interpreter (kernel_interpreter.h).
#pragma once
#include <functional>
#include <optional>

#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "tests/support/compiled_kernel.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::tests {

// Short names for the constructors of core/ir/build.h, for one context.
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

// C (m x n) = A (m x k) B (k x n). In memory A is k x m if transpose_a, and B is n x k if
// transpose_b.
ir::UOp MatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, bool transpose_a,
                     bool transpose_b, ir::Dtype dtype = ir::Dtype::F32);

// The same of operands of dtypes a and b that are converted to the dtype of the sum.
ir::UOp WideningMatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, bool transpose_a,
                             bool transpose_b, ir::Dtype a, ir::Dtype b, ir::Dtype sum);

// The same with B in words of 32 bits that hold neighbours along k
// (schedule/kept/packed_operand.h). REQUIRES: the elements of a word divide k.
ir::UOp WordsMatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, ir::Dtype a,
                          ir::Dtype b, ir::Dtype sum);

// A target of two threads with 32 vector registers of 64 bytes.
Target WideTarget();
// Products of bf16 pairs and of four bytes, 16 lanes each. If this machine cannot run them as LLVM
// IR: with a number of lanes that no vector has, so that they are computed without instructions.
std::vector<MatrixInstruction> DotInstructions(CompiledText::Language language);
// Those of AMX, which are emulated (amx_emulator.h), before the others.
std::vector<MatrixInstruction> TileInstructions(CompiledText::Language language);

struct CheckOptions {
  Target target;
  codegen::Options options;
  std::map<std::string, int64_t> variables;
  CompiledText::Language language = CompiledText::kC;
  // Runs a kernel for blocks over the buffers. Null: the interpreter of linear kernels does
  // (lowered_run.h).
  std::function<absl::Status(ir::UOpContext&, const codegen::LoweredKernel&, Memory&)> run_blocks;
  // Allowed error relative to the largest magnitude in the buffer. 0: bits must be equal, except
  // that all NaNs are equal.
  double tolerance = 0;
  double ulps = 0;  // alternatively allowed: this many units in the last place
};

// Runs the kernel over copies of `memory`, compiled and interpreted, and compares every buffer. The
// compiled kernel's buffers end at pages without access (guarded_memory.h). Returns a
// description of the first difference; empty: there is none.
std::string CheckKernel(ir::UOpContext& ctx, ir::UOp sink, const Memory& memory,
                        const CheckOptions& check);
// The same with these opts on WideTarget(), as C and as LLVM IR: what is wrong in either, or empty.
std::string CheckOpts(ir::UOpContext& ctx, ir::UOp kernel, const Memory& memory,
                      const std::vector<codegen::Opt>& opts, double tolerance);

// Bytes of n random elements of a dtype. With `tame`, small values only; otherwise two of three
// elements are special values: NaN, infinities, limits, halves.
std::vector<uint8_t> SampleBuffer(ir::Dtype dtype, int64_t n, uint64_t seed, bool tame);

}  // namespace uopd::tests
