// SPDX-License-Identifier: MIT
#include <numeric>

#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// What is known of an index expression as stride * range + rest.
struct Linear {
  std::optional<int64_t> stride;  // nullopt: the expression is not linear in the range
  int64_t factor = 1;             // a divisor of `rest`; 0: `rest` is 0
};

int64_t Gcd(int64_t a, int64_t b) { return std::gcd(a, b); }

// The form of u from the forms `s` of its sources. `steps`: the number of values of the range.
Linear CombineStrides(UOp u, const std::vector<Linear>& s, int64_t steps) {
  switch (u.op()) {
    case Op::ADD:
    case Op::SUB: {
      if (!s[0].stride || !s[1].stride) return {};
      const int64_t b = u.Is(Op::SUB) ? -*s[1].stride : *s[1].stride;
      return {*s[0].stride + b, Gcd(s[0].factor, s[1].factor)};
    }
    case Op::NEG:
      if (!s[0].stride) return {};
      return {-*s[0].stride, s[0].factor};
    case Op::CAST:
      // Linear only if the integer dtype holds every index of the kernel, which is not known here.
      return {};
    case Op::MUL:
      for (int i = 0; i < 2; ++i) {
        const UOp c = u.src(i);
        if (!c.Is(Op::CONST) || !s[1 - i].stride) continue;
        int64_t stride, factor;
        if (__builtin_mul_overflow(*s[1 - i].stride, c.const_int(), &stride)) return {};
        if (__builtin_mul_overflow(s[1 - i].factor, c.const_int(), &factor)) factor = 1;
        return {stride, factor < 0 ? -factor : factor};
      }
      return {};
    case Op::FLOORDIV:
    case Op::FLOORMOD: {
      const UOp c = u.src(1);
      if (!c.Is(Op::CONST) || c.const_int() <= 0 || !s[0].stride) return {};
      const int64_t d = c.const_int(), stride = *s[0].stride;
      const bool div = u.Is(Op::FLOORDIV);
      if (stride % d == 0 && stride != 0) return div ? Linear{stride / d, 1} : Linear{0, 1};
      // `rest` is a multiple of g, so rest % d is at most d - g. If the range adds less than g in
      // total, the quotient never changes.
      const int64_t g = Gcd(s[0].factor, d);
      if (stride < 0 || stride > 4096 || stride * (steps - 1) >= g) return {};
      return div ? Linear{0, 1} : Linear{stride, g};
    }
    case Op::WHERE:
      if (s[0].stride != 0 || !s[1].stride || s[1].stride != s[2].stride) return {};
      return {s[1].stride, Gcd(s[1].factor, s[2].factor)};
    default:
      return {};
  }
}

}  // namespace

std::optional<int64_t> StrideAlong(ir::UOpContext& ctx, UOp index, UOp range) {
  absl::flat_hash_map<uint32_t, Linear> done;
  std::vector<Linear> srcs;
  const int64_t steps = static_cast<int64_t>(ctx.BoundsOf(range).max) + 1;
  for (UOp u : ir::Toposort(ctx, index)) {
    Linear out;
    srcs.clear();
    bool moves = u == range;
    for (UOp s : u.srcs()) {
      srcs.push_back(done.at(s.id()));
      moves |= srcs.back().stride != 0;
    }
    if (u == range) {
      out = {1, 0};
    } else if (u.Is(Op::CONST) && !ir::IsFloat(u.dtype())) {
      out = {0, u.const_int() < 0 ? -u.const_int() : u.const_int()};
    } else if (u.dtype() == ir::Dtype::Index && u.Is(ir::kElementwiseOps)) {
      out = CombineStrides(u, srcs, steps);
      if (!moves) out = {0, out.stride ? out.factor : 1};
    } else {
      out.stride = moves ? std::nullopt : std::optional<int64_t>(0);
    }
    done[u.id()] = out;
  }
  return done.at(index.id()).stride;
}

}  // namespace uopd::codegen
