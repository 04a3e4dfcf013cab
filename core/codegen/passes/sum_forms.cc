// SPDX-License-Identifier: MIT
#include "core/codegen/passes/sum_forms.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

std::string SizeOf(UOp range) {
  return range.src(0).Is(Op::CONST) ? Cat(range.src(0).const_int()) : "n";
}

// Whether the loops, with the unrolled terms of each step, go through the axes in their order.
// `loops` and `terms` are sorted by axis id, and the parts of an axis have ids one after the other.
// So the terms of a step must be parts of the innermost axes.
bool FollowsAxes(std::span<const UOp> loops, std::span<const UOp> terms,
                 std::span<const int64_t> axes) {
  if (!loops.empty() && !terms.empty() && terms[0].axis_id() < loops.back().axis_id()) return false;
  if (axes.size() == 1 && loops.size() + terms.size() > 0) return true;  // also of a symbolic size
  std::vector<int64_t> sizes;
  for (const auto& ranges : {loops, terms}) {
    for (UOp r : ranges) sizes.push_back(r.src(0).Is(Op::CONST) ? r.src(0).const_int() : 0);
  }
  // Parts that follow each other are one axis.
  size_t at = 0;
  for (const int64_t axis : axes) {
    int64_t size = 1;
    while (size < axis && at < sizes.size()) size *= sizes[at++];
    if (size != axis) return false;
  }
  return at == sizes.size();
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

SumForms::SumForms(ir::UOpContext& ctx, UOp sink, const Target& target)
    : target_(target), sums_(FloatSums(ctx, sink)) {
  if (sums_.empty()) return;
  CountCopies(ctx, sink);
  chunks_ = LongSums(ctx, sink, target);
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
  const auto chunks = chunks_.find(sum.id());
  const std::string out = WithoutChunks(sum, axes);
  return chunks == chunks_.end() ? out : Cat(out, " ", Text(sum, chunks->second));
}

std::string SumForms::WithoutChunks(UOp sum, std::span<const int64_t> axes) const {
  std::vector<UOp> loops, terms;
  bool unrolled = false, in_loop = false;
  for (UOp r : sum.Is(Op::SCAN) ? sum.scanned() : sum.closed()) {
    (r.axis_type() == AxisType::REDUCE ? loops : terms).push_back(r);
    unrolled |= IsUnrolled(r);
    in_loop |= r.axis_type() == AxisType::REDUCE;
  }
  std::ranges::sort(loops, {}, [](UOp r) { return r.axis_id(); });
  std::ranges::sort(terms, {}, [](UOp r) { return r.axis_id(); });
  const bool in_turn = !unrolled || JoinsTermsInTurn(copies_.at(sum.id()), in_loop, target_);
  if (in_turn && std::ranges::all_of(terms, IsUnrolled) && FollowsAxes(loops, terms, axes))
    return "in turn";
  // The parts of an axis have ids one after the other. So their order says which axis they are a
  // part of.
  std::vector<UOp> all(loops);
  all.insert(all.end(), terms.begin(), terms.end());
  std::ranges::sort(all, {}, [](UOp r) { return r.axis_id(); });
  std::string out = in_turn ? "in turn over" : "apart over";
  for (UOp r : all) Append(out, " ", ir::Name(r.axis_type()), SizeOf(r));
  for (const int64_t size : axes) Append(out, &size == axes.data() ? " of " : "x", size);
  return out;
}

}  // namespace uopd::codegen
