// SPDX-License-Identifier: MIT
// A kernel of two roles: one thread copies boxes of a matrix of i32 through a ring of parts, and
// the other threads store the words of each part as they lie: out[k * words() + t] in step k. Slot
// 0: out, slot 1: the matrix. Tests break it in one place.
#pragma once
#include "core/ir/role.h"
#include "core/ir/tensor_map.h"
#include "tests/support/kernel_lines.h"

namespace uopd::tests {

struct RoleRing {
  static constexpr int64_t kRows = 8, kSpan = 128, kColumns = 32;  // of a box and of the matrix
  int64_t steps = 7, parts = 2, producers = 32;
  int64_t producer_registers = 0, consumer_registers = 0;
  // What tests break.
  bool wait_full = true, wait_empty = true, arrive = true, late_arrival = true;
  bool full_flips = true, empty_flips = true;
  bool barrier_in_role = false, shared_store = false, line_behind = false, value_of_other = false;
  int64_t more_arrivals = 0;  // that BULK_INIT says
  int64_t more_bytes = 0;     // that BULK_EXPECT says
  int64_t other_part = 0;     // the part whose barrier copies wait at, after their own
  int64_t skipped_step = -1;  // of the consumers' arrivals
  int64_t first_consumer = 0;
  int64_t polls = 0;  // tag of the consumers' loop

  int64_t words() const { return kRows * kSpan / 4; }  // of a box; the consumers
  int64_t threads() const { return words() + producers; }
  TensorMap Map() const {
    return {1, 4, kSpan, {kColumns, steps * kRows}, {kColumns * 4}, {kSpan / 4, kRows}};
  }

  // `k`: of threads().
  ir::UOp Lines(KernelLines& k) const {
    using ir::Op;
    ir::UOpContext& c = k.ctx;
    const ir::UOp out = k.Param(0, steps * words()), in = k.Param(1, kColumns * steps * kRows);
    const auto shared = [&](int64_t slot, ir::Dtype d, int64_t n) {
      return k.Add(ir::Buffer(c, slot, d, ir::ShapeArg(c, ir::Dims{n}), ir::AddrSpace::LOCAL));
    };
    const ir::UOp tiles = shared(100, ir::Dtype::U32, parts * words()),
                  full = shared(101, ir::Dtype::U64, parts),
                  empty = shared(102, ir::Dtype::U64, parts);
    const auto line = [&](Op op, const std::vector<ir::UOp>& srcs, ir::Arg arg = {}) {
      return k.Add(c.Make(op, ir::Dtype::Void, srcs, arg));
    };
    const auto index = [&](ir::UOp array, ir::UOp at, ir::UOp gate = {}, int64_t n = 0) {
      return k.Add(ir::Index(c, array, at, gate, n));
    };
    const auto role = [&](const ir::WarpRole& r) { return line(Op::ROLE, {k.thread}, r.ToArg(c)); };
    const ir::UOp first = k.Alu(Op::CMPLT, k.thread, k.Int(1));
    line(Op::BULK_INIT, {index(full, k.Int(0), first, parts)}, ir::Arg::Int(1));
    line(Op::BULK_INIT, {index(empty, k.Int(0), first, parts)},
         ir::Arg::Int(words() + more_arrivals));
    k.Barrier();

    const ir::UOp producer = role({words(), producers, 1, producer_registers});
    {
      const ir::UOp step = k.Range(k.Int(steps));
      const ir::UOp part = k.Alu(Op::CMOD, step, k.Int(parts));
      const ir::UOp turn = k.Alu(Op::CDIV, step, k.Int(parts));
      const ir::UOp next = k.Alu(Op::ADD, turn, k.Int(1));
      if (wait_empty) {
        const ir::UOp at =
            other_part == 0
                ? part
                : k.Alu(Op::CMOD, k.Alu(Op::ADD, step, k.Int(other_part)), k.Int(parts));
        line(Op::BULK_WAIT,
             {index(empty, at), empty_flips ? k.Alu(Op::CMOD, next, k.Int(2)) : k.Int(1)});
      }
      line(Op::BULK_EXPECT, {index(full, part)}, c.Data({Map().box_bytes() + more_bytes}));
      const ir::UOp to = index(tiles, k.Alu(Op::MUL, part, k.Int(words())));
      const ir::UOp row = k.Alu(Op::MUL, step, k.Int(kRows));
      k.End(step, line(Op::BULK_COPY, {to, in, k.lines[k.lines.size() - 5], k.Int(0), row},
                       ir::TensorMapArg(c, Map())));
    }
    line(Op::ROLE_END, {producer});

    const ir::UOp consumer = role(
        {first_consumer, words() - first_consumer, words() - first_consumer, consumer_registers});
    {
      const ir::UOp loop = ir::Range(c, k.Int(steps), 77, ir::AxisType::LOOP);
      const ir::UOp step = k.Add(c.Make(loop.op(), loop.dtype(), loop.srcs(), loop.arg(), polls));
      const ir::UOp part = k.Alu(Op::CMOD, step, k.Int(parts));
      const ir::UOp turn = k.Alu(Op::CDIV, step, k.Int(parts));
      if (wait_full)
        line(Op::BULK_WAIT,
             {index(full, part), full_flips ? k.Alu(Op::CMOD, turn, k.Int(2)) : k.Int(0)});
      const auto arrives = [&] {
        const ir::UOp gate =
            skipped_step < 0 ? ir::UOp() : k.Alu(Op::CMPNE, step, k.Int(skipped_step));
        line(Op::BULK_ARRIVE, {index(empty, part, gate)});
      };
      if (arrive && !late_arrival) arrives();
      const ir::UOp at = k.Alu(Op::ADD, k.Alu(Op::MUL, part, k.Int(words())), k.thread);
      const ir::UOp word = k.Add(ir::Load(c, index(tiles, at)));
      if (barrier_in_role) k.Barrier();
      if (shared_store) k.Add(ir::Store(c, index(empty, k.thread), c.Int(ir::Dtype::U64, 1)));
      const ir::UOp store =
          k.Store(out, k.Alu(Op::ADD, k.Alu(Op::MUL, step, k.Int(words())), k.thread),
                  k.Add(ir::Bitcast(c, word, ir::Dtype::I32)));
      if (arrive && late_arrival) arrives();
      k.End(step, store);
      if (value_of_other) k.Alu(Op::ADD, producer_value(k, words()), k.Int(1));
    }
    line(Op::ROLE_END, {consumer});
    if (line_behind) k.Alu(Op::ADD, k.thread, k.Int(5));
    return k.Linear();
  }

 private:
  // A value of the producer's role.
  static ir::UOp producer_value(KernelLines& k, int64_t) {
    for (ir::UOp u : k.lines) {
      if (u.Is(ir::Op::CMOD)) return u;
    }
    return {};
  }
};

}  // namespace uopd::tests
