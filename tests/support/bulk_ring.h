// SPDX-License-Identifier: MIT
// A kernel that copies boxes of a matrix of i32 to shared memory by BULK_COPY, through a ring of
// parts: step k copies 8 rows from row `y + 8 k` and column `x` on, which may lie outside of the
// matrix. Its threads then store the words of the part as they lie: out[k * words() + t]. Slot 0:
// out, slot 1: the matrix. Tests break it in one place.
#pragma once
#include <algorithm>

#include "core/ir/tensor_map.h"
#include "tests/support/kernel_lines.h"

namespace uopd::tests {

struct BulkRing {
  static constexpr int64_t kRows = 8;  // of a box
  int64_t span = 128, columns = 40, rows = 30, x = 0, y = 0, steps = 4, parts = 2;
  // What tests break.
  bool init = true, first_barrier = true, wait = true, barrier = true, flips = true, expect = true;
  int64_t more_bytes = 0;     // that BULK_EXPECT says
  int64_t shift = 0;          // words, of where copies begin
  int64_t missing_waits = 0;  // steps that the loop lacks
  int64_t polls = 0;          // tag of the loop
  bool extra_store = false;   // to what copies fill

  int64_t words() const { return kRows * span / 4; }  // of a box; the threads of a block
  TensorMap Map() const { return {1, 4, span, {columns, rows}, {columns * 4}, {span / 4, kRows}}; }

  ir::UOp Lines(KernelLines& k) const {
    using ir::Op;
    ir::UOpContext& c = k.ctx;
    const ir::UOp out = k.Param(0, steps * words()), in = k.Param(1, columns * rows);
    const auto shared = [&](int64_t slot, ir::Dtype d, int64_t n) {
      return k.Add(ir::Buffer(c, slot, d, ir::ShapeArg(c, ir::Dims{n}), ir::AddrSpace::LOCAL));
    };
    const ir::UOp tiles = shared(100, ir::Dtype::U32, (parts * words() + shift)),
                  barriers = shared(101, ir::Dtype::U64, parts);
    const ir::UOp first = k.Alu(Op::CMPLT, k.thread, k.Int(1));
    // A node is one line only.
    const auto alu = [&](Op op, ir::UOp a, ir::UOp b) {
      const ir::UOp u = ir::Alu(c, op, {a, b});
      return std::ranges::find(k.lines, u) == k.lines.end() ? k.Add(u) : u;
    };
    const auto line = [&](Op op, const std::vector<ir::UOp>& srcs, ir::Arg arg = {}) {
      return k.Add(c.Make(op, ir::Dtype::Void, srcs, arg));
    };
    const auto index = [&](ir::UOp array, ir::UOp at, ir::UOp gate = {}, int64_t n = 0) {
      return k.Add(ir::Index(c, array, at, gate, n));
    };
    const auto copy = [&](ir::UOp part, ir::UOp step, ir::UOp gate) {
      if (expect)
        line(Op::BULK_EXPECT, {index(barriers, part, gate)},
             c.Data({Map().box_bytes() + more_bytes}));
      const ir::UOp at = alu(Op::ADD, alu(Op::MUL, part, k.Int(words())), k.Int(shift));
      const ir::UOp row = alu(Op::ADD, alu(Op::MUL, step, k.Int(kRows)), k.Int(y));
      return line(Op::BULK_COPY, {index(tiles, at, gate), in, index(barriers, part), k.Int(x), row},
                  ir::TensorMapArg(c, Map()));
    };
    if (init) line(Op::BULK_INIT, {index(barriers, k.Int(0), first, parts)}, ir::Arg::Int(1));
    if (first_barrier) k.Barrier();
    if (extra_store) k.Add(ir::Store(c, index(tiles, k.thread), c.Int(ir::Dtype::U32, 1)));
    for (int64_t s = 0; s < parts && s < steps; ++s) copy(k.Int(s), k.Int(s), first);
    const ir::UOp loop = ir::Range(c, k.Int(steps - missing_waits), 7, ir::AxisType::LOOP);
    const ir::UOp step = k.Add(c.Make(loop.op(), loop.dtype(), loop.srcs(), loop.arg(), polls));
    const ir::UOp part = alu(Op::CMOD, step, k.Int(parts));
    const ir::UOp turn = alu(Op::CDIV, step, k.Int(parts));
    if (wait)
      line(Op::BULK_WAIT,
           {index(barriers, part), flips ? alu(Op::CMOD, turn, k.Int(2)) : k.Int(0)});
    const ir::UOp at =
        alu(Op::ADD, alu(Op::MUL, part, k.Int(words())), alu(Op::ADD, k.thread, k.Int(shift)));
    const ir::UOp word = k.Add(ir::Load(c, index(tiles, at)));
    k.Store(out, alu(Op::ADD, alu(Op::MUL, step, k.Int(words())), k.thread),
            k.Add(ir::Bitcast(c, word, ir::Dtype::I32)));
    if (barrier) k.Barrier();
    const ir::UOp next = alu(Op::ADD, step, k.Int(parts));
    const ir::UOp is_step = alu(Op::CMPLT, next, k.Int(steps));
    k.End(step, copy(part, next, alu(Op::AND, first, is_step)));
    return k.Linear();
  }
};

}  // namespace uopd::tests
