// SPDX-License-Identifier: MIT
#include "core/codegen/opt/sum_forms.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

bool IsUnrolled(UOp u) {
  return u.Is(Op::RANGE) &&
         (u.axis_type() == AxisType::UPCAST || u.axis_type() == AxisType::UNROLL);
}

std::string SizeOf(UOp range) {
  return range.src(0).Is(Op::CONST) ? Cat(range.src(0).const_int()) : "n";
}

// Whether the loops, with the unrolled terms of each step, go through the axes in their order: the terms
// of a step are a part of the innermost axis, or all of it. Axes of equal size cannot be told apart. Without
// a loop the sum begins with its first term and not with 0, which is another sum if all terms are -0.
bool FollowsAxes(std::span<const UOp> loops, std::span<const UOp> terms,
                 std::span<const int64_t> axes) {
  if (loops.empty()) return false;
  if (axes.size() == 1 && loops.size() == 1) return true;  // also of a size that is not constant
  std::vector<int64_t> sizes;
  for (UOp r : loops) sizes.push_back(r.src(0).Is(Op::CONST) ? r.src(0).const_int() : 0);
  if (terms.size() > 1) return false;
  if (!terms.empty()) {
    if (terms[0].axis_id() < loops.back().axis_id()) return false;  // of an outer axis
    const int64_t step = terms[0].src(0).const_int();
    if (sizes.size() < axes.size()) {
      sizes.push_back(step);
    } else {
      sizes.back() *= step;
    }
  }
  return std::ranges::equal(sizes, axes);
}

}  // namespace

std::vector<UOp> FloatSums(const ir::UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is({Op::REDUCE, Op::SCAN}) && u.reduce_op() != Op::MAX && ir::IsFloat(u.dtype()))
      out.push_back(u);
  }
  return out;
}

std::vector<int64_t> AxesOfSum(UOp sum) {
  std::vector<UOp> ranges(sum.closed().begin(), sum.closed().end());
  std::ranges::sort(ranges, {}, [](UOp r) { return r.axis_id(); });
  std::vector<int64_t> out;
  for (UOp r : ranges) {
    if (!r.src(0).Is(Op::CONST) && ranges.size() > 1) return {};
    out.push_back(r.src(0).Is(Op::CONST) ? r.src(0).const_int() : 0);
  }
  return out;
}

SumForms::SumForms(const ir::UOpContext& ctx, UOp sink, const Target& target)
    : target_(target), sums_(FloatSums(ctx, sink)) {
  if (!sums_.empty()) CountCopies(ctx, sink);
}

void SumForms::CountCopies(const ir::UOpContext& ctx, UOp sink) {
  // By id of a node: the unrolled ranges that its value depends on, by their ids, ascending.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> along;
  absl::flat_hash_map<uint32_t, int64_t> sizes;
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<uint32_t>& mine = along[u.id()];
    if (IsUnrolled(u)) {
      sizes[u.id()] = u.src(0).Is(Op::CONST) ? u.src(0).const_int() : 1;
      mine = {u.id()};
      continue;
    }
    for (UOp s : u.srcs().first(u.n_body())) {
      const std::vector<uint32_t>& theirs = along[s.id()];
      mine.insert(mine.end(), theirs.begin(), theirs.end());
    }
    std::ranges::sort(mine);
    mine.erase(std::ranges::unique(mine).begin(), mine.end());
    for (UOp r : u.closed()) std::erase(mine, r.id());
    if (std::ranges::find(sums_, u) == sums_.end()) continue;
    int64_t copies = 1;
    for (const uint32_t id : mine) copies *= sizes.at(id);
    copies_[u.id()] = copies;
  }
}

std::string SumForms::Of(UOp sum, std::span<const int64_t> axes) const {
  std::vector<UOp> loops, terms;
  bool unrolled = false, in_loop = false;
  for (UOp r : sum.Is(Op::SCAN) ? sum.scanned() : sum.closed()) {
    (r.axis_type() == AxisType::REDUCE ? loops : terms).push_back(r);
    (IsUnrolled(r) ? unrolled : in_loop) = true;
  }
  std::ranges::sort(loops, {}, [](UOp r) { return r.axis_id(); });
  const bool in_turn = !unrolled || JoinsTermsInTurn(copies_.at(sum.id()), in_loop, target_);
  if (in_turn && std::ranges::all_of(terms, IsUnrolled) && FollowsAxes(loops, terms, axes))
    return "in turn";
  // The parts of an axis have ids one after the other. So they say which axis they are a part of, but for what
  // OrderReductions has moved.
  std::vector<UOp> all(loops);
  all.insert(all.end(), terms.begin(), terms.end());
  std::ranges::sort(all, {}, [](UOp r) { return r.axis_id(); });
  std::string out = in_turn ? "in turn over" : "apart over";
  for (UOp r : all) Append(out, " ", ir::Name(r.axis_type()), SizeOf(r));
  for (const int64_t size : axes) Append(out, &size == axes.data() ? " of " : "x", size);
  return out;
}

}  // namespace uopd::codegen
