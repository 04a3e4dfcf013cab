// SPDX-License-Identifier: MIT
#include "core/codegen/attention/row_terms.h"

#include <algorithm>
#include <iterator>

#include "core/codegen/attention/row_part.h"
#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;
using Kind = RowPart::Kind;

OpenRanges::OpenRanges(const ir::UOpContext& ctx, UOp sink) {
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<uint32_t> mine;
    if (u.Is(Op::RANGE)) mine.push_back(u.id());
    for (UOp s : u.body()) {
      std::vector<uint32_t> both;
      const auto& from = along_.at(s.id());
      std::set_union(mine.begin(), mine.end(), from.begin(), from.end(), std::back_inserter(both));
      mine = std::move(both);
    }
    for (UOp r : u.closed()) std::erase(mine, r.id());
    along_[u.id()] = std::move(mine);
  }
}

bool OpenRanges::Varies(UOp u, UOp range) const {
  return std::ranges::binary_search(Of(u), range.id());
}

RowTerms::RowTerms(ir::UOpContext& ctx, UOp sink, UOp maximum, UOp block, int64_t n)
    : ctx_(ctx),
      maximum_(maximum),
      block_(block),
      size_(maximum.closed()[0].src(0)),
      n_(n),
      open_(ctx, sink),
      order_(ir::Toposort(ctx, sink)) {
  for (UOp u : order_) {
    const auto mine = [&](UOp s) { return uses_maximum_.contains(s.id()); };
    if (u == maximum || std::ranges::any_of(u.srcs(), mine)) uses_maximum_.insert(u.id());
  }
}

void RowTerms::AddSum(UOp sum) {
  uses_sum_.insert(sum.id());
  for (UOp u : order_) {
    const auto mine = [&](UOp s) { return uses_sum_.contains(s.id()); };
    if (std::ranges::any_of(u.srcs(), mine)) uses_sum_.insert(u.id());
  }
}

bool RowTerms::UsesSum(UOp u) const { return uses_sum_.contains(u.id()); }

bool RowTerms::IsOverRow(UOp u) const {
  if (!u.Is({Op::REDUCE, Op::STAGE}) || !ir::IsFloat(u.dtype()) || u.closed().size() != 1)
    return false;
  const UOp r = u.closed()[0];
  if (r.axis_type() != ir::AxisType::REDUCE || r.src(0) != size_) return false;
  return u.Is(Op::REDUCE) ||
         (u.src(1) == r && u.src(2).IsConstInt(1) && ctx_.BoundsOf(size_).max == u.arg().AsInt());
}

UOp RowTerms::InBlock(UOp range) {
  UOp& out = in_block_[range.id()];
  if (!out) out = Range(ctx_, ctx_.Idx(n_), range.axis_id(), range.axis_type());
  return out;
}

UOp RowTerms::MaybeValid(UOp range) {
  if (size_.Is(Op::CONST) && size_.const_int() % n_ == 0) return {};
  const UOp at =
      rules::IndexSum(ctx_, rules::IndexProduct(ctx_, block_, ctx_.Idx(n_)), InBlock(range));
  return Lt(ctx_, at, size_);
}

std::optional<RowPart> RowTerms::Copy(UOp reduce, const ir::Substitution& fresh) {
  rows_.clear();
  return CopyIn(reduce.src(0), reduce.closed()[0], fresh);
}

bool RowTerms::IsRowLoad(UOp u, UOp range) const {
  return u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::STAGE) && IsOverRow(u.src(0).src(0)) &&
         u.src(0).n_src() == 2 && u.src(0).src(1) == range;
}

// Recursion is as deep as stages nest.
std::optional<RowPart> RowTerms::CopyIn(UOp value, UOp range, const ir::Substitution& fresh) {
  absl::flat_hash_map<uint32_t, RowPart> done;
  const auto changes = [&](UOp u) {
    if (UsesMaximum(u) || open_.Varies(u, range)) return true;
    return std::ranges::any_of(open_.Of(u), [&](uint32_t id) { return fresh.contains(id); });
  };
  const auto is_outer = [&](UOp u) { return UsesSum(u) && !open_.Varies(u, range); };
  const auto enter = [&](UOp u) {
    return u != maximum_ && changes(u) && !is_outer(u) && !IsRowLoad(u, range);
  };
  std::vector<RowPart> srcs;
  for (UOp u : ir::Toposort(ctx_, std::span<const UOp>(&value, 1), enter)) {
    RowPart part{Kind::kFree, 0, u, {}};
    if (u == maximum_) {
      part = {Kind::kShift, 1, so_far_, {}};
      if (!so_far_) return std::nullopt;
    } else if (u == range) {
      part.value =
          rules::IndexSum(ctx_, rules::IndexProduct(ctx_, block_, ctx_.Idx(n_)), InBlock(range));
    } else if (const auto it = fresh.find(u.id()); it != fresh.end()) {
      part.value = it->second;
    } else if (is_outer(u)) {
      part.kind = Kind::kOuter;
    } else if (IsRowLoad(u, range)) {
      const auto row = LoadOf(u, range, fresh);
      if (!row) return std::nullopt;
      part = *row;
    } else if (changes(u)) {
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
      const auto made = CopyNode(u, srcs, range);
      if (!made) return std::nullopt;
      part = *made;
    }
    done[u.id()] = std::move(part);
  }
  return done.at(value.id());
}

std::optional<RowPart> RowTerms::CopyNode(UOp u, std::span<const RowPart> srcs, UOp range) {
  const auto closed = u.closed();
  if (std::ranges::find(closed, range) != closed.end()) return std::nullopt;
  const auto rule = CombineRowParts(u, srcs);
  if (!rule) return std::nullopt;
  RowPart out = rule->part;
  if (rule->keep >= 0) {
    out.value = srcs[static_cast<size_t>(rule->keep)].value;
    return out;
  }
  std::vector<UOp> values;
  for (const RowPart& p : srcs) values.push_back(p.value);
  const UOp valid = u.Is(Op::INDEX) && open_.Varies(u.src(1), range) ? MaybeValid(range) : UOp();
  if (valid) {
    const UOp gate = values.size() == 3 ? And(ctx_, values[2], valid) : valid;
    out.value = ir::Index(ctx_, values[0], values[1], gate, u.arg().AsInt());
  } else {
    out.value = rules::WithIndexSources(ctx_, u, values);
  }
  return out;
}

std::optional<RowPart> RowTerms::LoadOf(UOp load, UOp range, const ir::Substitution& fresh) {
  const UOp stage = load.src(0).src(0), mine = stage.closed()[0];
  stages_.insert(stage.id());
  auto it = rows_.find(stage.id());
  if (it == rows_.end()) {
    auto part = CopyIn(stage.src(0), mine, fresh);
    if (!part || part->kind == Kind::kOuter) return std::nullopt;
    // A row of another row's elements, times a factor, is that other row.
    const UOp v = part->value;
    if (v.Is(Op::LOAD) && v.src(0).src(0).Is(Op::STAGE) && v.src(0).src(1) == InBlock(mine)) {
      part->value = v.src(0).src(0);
    } else {
      const UOp at = InBlock(mine);
      part->value = ir::Staged(ctx_, v, n_, at, MaybeValid(mine), std::span<const UOp>(&at, 1));
    }
    it = rows_.emplace(stage.id(), Row{*part}).first;
  }
  RowPart out = it->second.part;
  out.value = ir::Load(ctx_, ir::Index(ctx_, out.value, InBlock(range), MaybeValid(range)));
  return out;
}

}  // namespace uopd::codegen
