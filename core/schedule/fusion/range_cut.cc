// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/range_cut.h"

#include <numeric>

#include "absl/container/inlined_vector.h"

namespace uopd::schedule {

using ir::Op;
using ir::UOp;

constexpr size_t kMaxCutSteps = 64;  // nodes that are visited; larger indices are not cut

std::optional<RangeCut> MaybeCutOf(UOp range, std::span<const UOp> indices) {
  const UOp size = range.src(0);
  if (!size.Is(Op::CONST)) return std::nullopt;
  RangeCut cut = {range, 1, size.const_int()};
  absl::InlinedVector<UOp, 16> stack(indices.begin(), indices.end());
  for (size_t steps = 0; !stack.empty(); ++steps) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u == range || steps == kMaxCutSteps) return std::nullopt;
    if (!u.Is({Op::FLOORDIV, Op::FLOORMOD}) || u.src(0) != range || !u.src(1).Is(Op::CONST)) {
      stack.insert(stack.end(), u.srcs().begin(), u.srcs().end());
      continue;
    }
    const int64_t by = u.src(1).const_int();
    if (by <= 0) return std::nullopt;
    if (u.Is(Op::FLOORDIV))
      cut.outer = std::gcd(cut.outer, by);
    else if (size.const_int() % by == 0)
      cut.inner = std::lcm(cut.inner, by);
    else
      return std::nullopt;
  }
  if (cut.outer <= cut.inner || cut.outer % cut.inner != 0) return std::nullopt;
  return cut;
}

}  // namespace uopd::schedule
