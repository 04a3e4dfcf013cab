// SPDX-License-Identifier: MIT
#include "core/codegen/passes/join_maxima.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

bool IsNan(UOp condition, UOp a) {
  return condition.Is(Op::CMPNE) && condition.src(0) == a && condition.src(1) == a;
}
bool IsLess(UOp condition, UOp b, UOp a) {
  return condition.Is(Op::CMPLT) && condition.src(0) == b && condition.src(1) == a;
}

// b, if u is what Maximum (combine.h) makes of a = u.src(1) and b: a if it is NaN or larger, else
// b. The rules join the two selects.
UOp MaybeOther(UOp u) {
  if (!u.Is(Op::WHERE) || u.dtype() != Dtype::F32) return UOp();
  const UOp condition = u.src(0), a = u.src(1), rest = u.src(2);
  if (condition.Is(Op::OR)) {
    const UOp x = condition.src(0), y = condition.src(1);
    const bool joined = (IsNan(x, a) && IsLess(y, rest, a)) || (IsNan(y, a) && IsLess(x, rest, a));
    return joined ? rest : UOp();
  }
  if (!IsNan(condition, a) || !rest.Is(Op::WHERE) || rest.src(1) != a) return UOp();
  return IsLess(rest.src(0), rest.src(2), a) ? rest.src(2) : UOp();
}

bool MayBeDropped(UOp u) { return u.Is({Op::WHERE, Op::CMPLT, Op::CMPNE, Op::OR}); }

}  // namespace

UOp JoinMaxima(ir::UOpContext& ctx, UOp linear) {
  absl::flat_hash_map<uint32_t, UOp> joined;
  const auto now = [&](UOp s) {
    const auto it = joined.find(s.id());
    return it == joined.end() ? s : it->second;
  };
  std::vector<UOp> lines, srcs;
  for (UOp u : linear.srcs()) {
    srcs.assign(u.srcs().begin(), u.srcs().end());
    std::ranges::transform(srcs, srcs.begin(), now);
    const UOp b = MaybeOther(u);
    const UOp made = b ? ir::Alu(ctx, Op::MAX, {now(u.src(1)), now(b)}) : ctx.WithSources(u, srcs);
    if (made != u) joined[u.id()] = made;
    lines.push_back(made);
  }
  if (joined.empty()) return linear;
  absl::flat_hash_set<uint32_t> used;
  std::vector<UOp> kept;
  for (size_t i = lines.size(); i-- > 0;) {
    if (MayBeDropped(lines[i]) && !used.contains(lines[i].id())) continue;
    for (UOp s : lines[i].srcs()) used.insert(s.id());
    kept.push_back(lines[i]);
  }
  std::ranges::reverse(kept);
  return ctx.Make(Op::LINEAR, Dtype::Void, kept, linear.arg(), linear.tag());
}

}  // namespace uopd::codegen
