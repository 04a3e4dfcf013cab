// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/numbers/decompose.h"
#include "core/codegen/passes/numbers/expr.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/unroll.h"

namespace uopd::codegen {
namespace {

using ir::Bounds;
using ir::Dtype;
using ir::Op;
using ir::UOp;

class AluDecomposer {
 public:
  AluDecomposer(ir::UOpContext& ctx, UOp sink, const Target& target, bool fast_math)
      : ctx_(ctx), target_(target), fast_math_(fast_math) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (!u.Is(Op::REDUCE)) continue;
      for (std::vector<UOp> stack = {u.src(0)}; !stack.empty();) {
        const UOp x = stack.back();
        stack.pop_back();
        if (x.tag() == kReduceChain && accumulated_.insert(x.id()).second)
          stack.insert(stack.end(), x.srcs().begin(), x.srcs().end());
      }
    }
  }

  UOp Visit(UOp u, std::span<const UOp> s) {
    const Dtype d = u.dtype();
    if (d == Dtype::Bool && s.size() == 2) {
      if (u.Is(Op::ADD) || u.Is(Op::MAX)) return ir::Alu(ctx_, Op::OR, {s[0], s[1]});
      if (u.Is(Op::MUL)) return ir::Alu(ctx_, Op::AND, {s[0], s[1]});
    }
    switch (u.op()) {
      case Op::MAX:
        return Maximum(ctx_, s[0], s[1]);
      case Op::RECIPROCAL:
        return E(s[0]).Const(1) / E(s[0]);
      case Op::CDIV:
      case Op::CMOD:
        return CDivMod(u.op(), E(s[0]), E(s[1]));
      case Op::FLOORDIV:
      case Op::FLOORMOD:
        return FloorDivMod(u.op(), E(s[0]), E(s[1]));
      case Op::SHL:
      case Op::SHR:
        return Shift(u.op(), E(s[0]), E(s[1]));
      case Op::POW:
        if (ir::IsFloat(d)) break;
        return Power(E(s[0]), E(s[1]));
      case Op::THREEFRY:
        return Threefry(E(s[0]), E(s[1]));
      case Op::ADD:
        // Fusing a product into a sum (contraction) changes rounding. It needs fast_math, except in
        // the unrolled terms of a reduction (kReduceChain). Where a REDUCE takes the terms one by
        // one, Linearise fuses them with the accumulator instead.
        if (!target_.has_fma || !ir::IsFloat(d) || accumulated_.contains(u.id())) break;
        if (!fast_math_ && u.tag() != kReduceChain) break;
        if (s[0].Is(Op::MUL)) return E(s[0].src(0)).Fma(E(s[0].src(1)), E(s[1]));
        if (s[1].Is(Op::MUL)) return E(s[1].src(0)).Fma(E(s[1].src(1)), E(s[0]));
        break;
      case Op::WMMA:
        if (HasInstruction(u)) break;
        return SumOfProducts(u, s);
      case Op::MULACC:
        if (ir::IsFloat(d) && target_.has_fma) break;
        return E(s[0]) * E(s[1]) + E(s[2]);
      default:
        break;
    }
    return ctx_.WithSources(u, s);
  }

 private:
  Ex E(UOp u) { return {ctx_, u}; }
  Bounds BoundsOf(Ex x) { return ctx_.BoundsOf(x); }

  // Whether the target has an instruction for a WMMA with as many lanes as u.
  bool HasInstruction(UOp u) {
    const ir::Shape& shape = *ctx_.ShapeOf(u);
    const int64_t lanes = shape.empty() ? 1 : shape[0].const_int();
    return std::any_of(target_.matrix_instructions.begin(), target_.matrix_instructions.end(),
                       [&](const MatrixInstruction& i) {
                         return i.m == 1 && i.n == lanes &&
                                static_cast<int64_t>(i.a) == u.ints()[0] &&
                                static_cast<int64_t>(i.b) == u.ints()[1];
                       });
  }
  // A WMMA as products of elements. They are terms of a reduction, so Linearise may fuse them.
  Ex SumOfProducts(UOp wmma, std::span<const UOp> s) {
    const Dtype d = wmma.dtype();
    const Ex a = E(s[0]), b = E(s[1]);
    const auto element = [&](Ex word, int64_t number, int at) {
      const Dtype of = *ir::DtypeByWire(static_cast<uint64_t>(number));
      if (of == Dtype::BF16) {
        const Ex high = at == 0 ? word << 16 : word & word.Bits(0xffff0000u);
        return high.Bitcast(Dtype::F32);
      }
      if (of == Dtype::F16) {
        const Ex half = (at == 0 ? word : word >> 16).Cast(Dtype::U16);
        return half.Bitcast(Dtype::F16).Cast(Dtype::F32);
      }
      const Ex byte = (at == 0 ? word : word >> (8 * at)).Cast(Dtype::U8);
      return (of == Dtype::I8 ? byte.Bitcast(of) : byte).Cast(d);
    };
    UOp sum = s.size() == 3 ? s[2] : UOp();
    for (int at = 0; at < (d == Dtype::F32 ? 2 : 4); ++at) {
      const UOp term = element(a, wmma.ints()[0], at) * element(b, wmma.ints()[1], at);
      sum = sum ? ctx_.Make(Op::ADD, d, {sum, term}, {}, kReduceChain) : term;
    }
    return E(sum);
  }

  // CDIV or CMOD with a safe divisor: 1 instead of 0, and 1 instead of -1 if x may be the lowest
  // value. The results for these divisors are selected separately.
  Ex CDivMod(Op op, Ex x, Ex y) {
    const Bounds by = BoundsOf(y), bx = BoundsOf(x);
    const bool zero = by.min <= 0 && by.max >= 0;
    const bool wraps = by.min <= -1 && by.max >= -1 && x.dtype() != Dtype::Index &&
                       bx.min <= ir::RangeOf(x.dtype()).min;
    if (!zero && !wraps) return x.Alu(op, y);
    Ex safe = y;
    if (wraps) safe = y.Eq(y.Const(-1)).Select(y.Const(1), safe);
    if (zero) safe = y.Eq(y.Const(0)).Select(y.Const(1), safe);
    Ex out = x.Alu(op, safe);
    if (wraps) out = y.Eq(y.Const(-1)).Select(op == Op::CDIV ? -x : x.Const(0), out);
    if (zero && op == Op::CDIV) out = y.Eq(y.Const(0)).Select(x.Const(0), out);
    return out;  // x % 0 is 0, as x % 1
  }

  Ex FloorDivMod(Op op, Ex x, Ex y) {
    const Bounds by = BoundsOf(y), bx = BoundsOf(x);
    const bool div = op == Op::FLOORDIV;
    if ((bx.min >= 0 && by.min >= 0) || ir::IsUnsigned(x.dtype())) {
      return CDivMod(div ? Op::CDIV : Op::CMOD, x, y);
    }
    if (by.IsPoint() && by.min > 0 && (by.min & (by.min - 1)) == 0) {
      const auto v = static_cast<uint64_t>(by.min);
      if (div) return x >> std::countr_zero(v);
      return x & x.Bits(v - 1);
    }
    const Ex r = CDivMod(Op::CMOD, x, y);
    const Ex off = r.Ne(r.Const(0)) & (r < 0).Ne(y < 0);
    if (!div) return r + off.Select(y, y.Const(0));
    return CDivMod(Op::CDIV, x, y) - off.Select(x.Const(1), x.Const(0));
  }

  Ex Shift(Op op, Ex x, Ex y) {
    const Bounds by = BoundsOf(y);
    const int bits = x.dtype() == Dtype::Index ? 64 : ir::Bits(x.dtype());
    if (by.min >= 0 && by.max < bits) return x.Alu(op, y);
    Ex inside = y < bits;
    if (by.min < 0) inside = inside & (y < 0).Not();
    if (op == Op::SHR && !ir::IsUnsigned(x.dtype()))
      return x.Alu(op, inside.Select(y, y.Const(bits - 1)));
    return inside.Select(x.Alu(op, inside.Select(y, y.Const(0))), x.Const(0));
  }

  // x^y by repeated squaring, for as many bits as the exponent can have. No branches, so it also
  // works on vectors.
  Ex Power(Ex x, Ex y) {
    const Bounds by = BoundsOf(y);
    if (by.min == 0 && by.max == 0) return x * 0 + 1;  // 1 with as many lanes as x
    Ex out = x.Const(1), square = x;
    for (int bit = 0; by.max >> bit > 0; ++bit) {
      if (bit > 0) square = square * square;
      const Ex mask = y.Bits(uint64_t{1} << bit);
      if (!by.IsPoint()) {
        out = (y & mask).Ne(y.Const(0)).Select(bit == 0 ? x : out * square, out);
      } else if ((by.min >> bit & 1) != 0) {
        out = out.uop().Is(Op::CONST) ? square : out * square;
      }
    }
    if (by.min >= 0) return out;
    // A negative exponent: 1 / x^|y| truncated. It is 1 or -1 for x = 1 and x = -1, else 0.
    const Ex odd = (y & y.Const(1)).Ne(y.Const(0)), one = x.Eq(x.Const(1)),
             unit = one | x.Eq(x.Const(-1));
    const Ex inverse = unit.Select((odd & one.Not()).Select(x.Const(-1), x.Const(1)), x.Const(0));
    return (y < 0).Select(inverse, out);
  }

  // Threefry-2x32 with 20 rounds, on 32-bit words (Salmon et al., "Parallel random numbers: as easy
  // as 1, 2, 3", 2011).
  Ex Threefry(Ex counter, Ex key) {
    constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const Ex k0 = key.Cast(Dtype::U32), k1 = (key >> 32).Cast(Dtype::U32);
    const Ex ks[3] = {k0, k1, k0 ^ k1 ^ k0.Const(0x1BD11BDA)};
    Ex x0 = counter.Cast(Dtype::U32) + ks[0], x1 = (counter >> 32).Cast(Dtype::U32) + ks[1];
    for (int i = 0; i < 5; ++i) {
      for (int r : kRotations[i % 2]) {
        x0 = x0 + x1;
        x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0;
      }
      x0 = x0 + ks[(i + 1) % 3];
      x1 = x1 + ks[(i + 2) % 3] + (i + 1);
    }
    return (x1.Cast(Dtype::U64) << 32) | x0.Cast(Dtype::U64);
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  const bool fast_math_;
  absl::flat_hash_set<uint32_t> accumulated_;  // nodes of kReduceChains below a REDUCE
};

}  // namespace

UOp DecomposeAlu(ir::UOpContext& ctx, UOp sink, const Target& target, bool fast_math) {
  AluDecomposer d(ctx, sink, target, fast_math);
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) { return d.Visit(u, s); });
}

}  // namespace uopd::codegen
