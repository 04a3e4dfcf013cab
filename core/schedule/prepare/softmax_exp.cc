// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/softmax_exp.h"

#include <algorithm>
#include <numbers>

#include "absl/container/flat_hash_map.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/schedule/prepare/softmax_product.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;

constexpr OpSet kSameValue = {Op::CAST, Op::DETACH};

bool IsReduceOf(UOp u, Op op, UOp x) {
  return u.Is(Op::REDUCE) && u.reduce_op() == op && UnderOps(OpSet{Op::CAST}, u.src(0)) == x;
}

// EXP(scores - REDUCE MAX scores).
bool IsOfOffset(UOp u) {
  if (!u.Is(Op::EXP) || ir::Bits(u.dtype()) < 32 || !u.src(0).Is(Op::SUB)) return false;
  const UOp off = u.src(0);
  return IsReduceOf(UnderOps(kSameValue, off.src(1)), Op::MAX, off.src(0));
}

}  // namespace

UOp LowerSoftmaxExponentials(ir::UOpContext& ctx, const std::vector<UOp>& order) {
  absl::flat_hash_map<uint32_t, std::vector<UOp>> users;  // of such EXPs, by id
  for (UOp u : order) {
    if (IsOfOffset(u)) users.try_emplace(u.id());
  }
  if (users.empty()) return order.back();
  // A CAST of an EXP is the same value, so its users count as those of the EXP.
  absl::flat_hash_map<uint32_t, uint32_t> is;
  for (UOp u : order) {
    for (UOp s : u.srcs()) {
      const auto cast = is.find(s.id());
      const auto it = users.find(cast == is.end() ? s.id() : cast->second);
      if (it == users.end()) continue;
      if (u.Is(Op::CAST) && ir::IsFloat(u.dtype()) && ir::Bits(u.dtype()) >= 32)
        is[u.id()] = it->first;
      else
        it->second.push_back(u);
    }
  }
  const auto is_divided = [&](UOp e) {
    const auto it = users.find(e.id());
    if (it == users.end()) return false;
    const auto is_sum = [&](UOp u) { return IsReduceOf(u, Op::ADD, e); };
    return std::ranges::all_of(it->second, [&](UOp u) {
      return is_sum(u) ||
             (u.Is(Op::FDIV) && u.src(0) == e && is_sum(UnderOps(kSameValue, u.src(1))));
    });
  };
  std::vector<UOp> done(ctx.size());
  ir::SymbolicDims srcs;
  for (UOp u : order) {
    srcs.clear();
    for (UOp s : u.srcs()) srcs.push_back(done[s.id()]);
    if (is_divided(u)) {
      const UOp log2e = ctx.Float(u.dtype(), std::numbers::log2e);
      done[u.id()] = ir::Alu(ctx, Op::EXP2, {ir::Mul(ctx, srcs[0], log2e)});
    } else {
      done[u.id()] = ctx.WithSources(u, srcs);
    }
  }
  return done[order.back().id()];
}

}  // namespace uopd::schedule
