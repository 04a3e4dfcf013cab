// SPDX-License-Identifier: MIT
// KernelLines: a linear kernel for blocks of threads, written line by line in a test. Its buffers
// and values are i32. It owns its context. Not thread-safe.
#pragma once
#include <vector>

#include "core/ir/build.h"
#include "core/ir/dtype.h"

namespace uopd::tests {

class KernelLines {
 public:
  // `threads`: of a block.
  explicit KernelLines(int64_t threads) {
    thread = Add(ctx.Make(ir::Op::SPECIAL, ir::Dtype::I32, {Int(threads)},
                          ctx.Data({static_cast<int64_t>(ir::AxisType::LOCAL), 0})));
  }
  // The number of the block, below `blocks`.
  ir::UOp Block(int64_t blocks) {
    return Add(ctx.Make(ir::Op::SPECIAL, ir::Dtype::I32, {Int(blocks)},
                        ctx.Data({static_cast<int64_t>(ir::AxisType::GLOBAL), 0})));
  }
  ir::UOp Add(ir::UOp u) {
    lines.push_back(u);
    return u;
  }
  ir::UOp Int(int64_t v) { return ctx.Int(ir::Dtype::I32, v); }
  ir::UOp Param(int64_t slot, int64_t elements) {
    return Add(ir::Param(ctx, slot, ir::Dtype::I32, ir::ShapeArg(ctx, ir::Dims{elements})));
  }
  ir::UOp Shared(int64_t elements) { return Array(elements, ir::AddrSpace::LOCAL); }
  ir::UOp Private(int64_t elements) { return Array(elements, ir::AddrSpace::REG); }
  ir::UOp Alu(ir::Op op, ir::UOp a, ir::UOp b) { return Add(ir::Alu(ctx, op, {a, b})); }
  ir::UOp Load(ir::UOp array, ir::UOp at, ir::UOp gate = {}) {
    return Add(ir::Load(ctx, Add(ir::Index(ctx, array, at, gate))));
  }
  ir::UOp Store(ir::UOp array, ir::UOp at, ir::UOp value, ir::UOp gate = {}) {
    return Add(ir::Store(ctx, Add(ir::Index(ctx, array, at, gate)), value));
  }
  void Barrier() { Add(ctx.Make(ir::Op::BARRIER, ir::Dtype::Void, {lines.back()})); }
  ir::UOp Range(ir::UOp size) { return Add(ir::Range(ctx, size, next_++, ir::AxisType::LOOP)); }
  // Ends the loop after its last statement.
  void End(ir::UOp range, ir::UOp statement) {
    Add(ctx.Make(ir::Op::END, ir::Dtype::Void, {statement, range}));
  }
  ir::UOp Shuffle(ir::UOp value, int64_t mask) {
    return Add(ctx.Make(ir::Op::SHUFFLE, ir::Dtype::I32, {value}, ir::Arg::Int(mask)));
  }

  ir::UOp Linear() { return ctx.Make(ir::Op::LINEAR, ir::Dtype::Void, lines); }

  ir::UOpContext ctx;
  std::vector<ir::UOp> lines;
  ir::UOp thread;

 private:
  ir::UOp Array(int64_t elements, ir::AddrSpace space) {
    return Add(
        ir::Buffer(ctx, next_++, ir::Dtype::I32, ir::ShapeArg(ctx, ir::Dims{elements}), space));
  }

  int64_t next_ = 0;
};

}  // namespace uopd::tests
