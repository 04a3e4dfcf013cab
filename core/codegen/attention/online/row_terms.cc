// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/row_terms.h"

#include <algorithm>

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;
using Kind = RowPart::Kind;

namespace {

// Adds u and the nodes that are computed from it to `users`. `order`: all nodes, sources first.
void AddUsers(std::span<const UOp> order, UOp u, absl::flat_hash_set<uint32_t>& users) {
  users.insert(u.id());
  for (UOp n : order) {
    const auto mine = [&](UOp s) { return users.contains(s.id()); };
    if (std::ranges::any_of(n.srcs(), mine)) users.insert(n.id());
  }
}

}  // namespace

RowTerms::RowTerms(ir::UOpContext& ctx, UOp sink, UOp maximum, KeyTile& tile)
    : ctx_(ctx), maximum_(maximum), tile_(tile), open_(ctx, sink), order_(ir::Toposort(ctx, sink)) {
  AddUsers(order_, maximum, uses_maximum_);
}

void RowTerms::AddSum(UOp sum) { AddUsers(order_, sum, uses_sum_); }

// Recursion is as deep as stages nest.
std::optional<RowPart> RowTerms::CopyIn(UOp value, UOp range, const ir::Substitution& fresh) {
  absl::flat_hash_map<uint32_t, RowPart> done;
  const auto changes = [&](UOp u) {
    if (UsesMaximum(u) || open_.Varies(u, range)) return true;
    return std::ranges::any_of(open_.Of(u), [&](uint32_t id) { return fresh.contains(id); });
  };
  const auto is_outer = [&](UOp u) {
    return uses_sum_.contains(u.id()) && !open_.Varies(u, range);
  };
  const auto enter = [&](UOp u) {
    return u != maximum_ && changes(u) && !is_outer(u) && !tile_.IsElement(u, range);
  };
  std::vector<RowPart> srcs;
  for (UOp u : ir::Toposort(ctx_, std::span<const UOp>(&value, 1), enter)) {
    RowPart part{Kind::kFree, 0, u, {}};
    if (u == maximum_) {
      part = {Kind::kShift, 1, so_far_, {}};
      if (!so_far_) return std::nullopt;
    } else if (u == range) {
      part.value = tile_.InRow(range);
    } else if (const auto it = fresh.find(u.id()); it != fresh.end()) {
      part.value = it->second;
    } else if (is_outer(u)) {
      part.kind = Kind::kOuter;
    } else if (tile_.IsElement(u, range)) {
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
  const UOp valid =
      u.Is(Op::INDEX) && open_.Varies(u.src(1), range) ? tile_.MaybeValid(range) : UOp();
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
    if (v.Is(Op::LOAD) && v.src(0).src(0).Is(Op::STAGE) && v.src(0).src(1) == tile_.InTile(mine)) {
      part->value = v.src(0).src(0);
    } else {
      const UOp at = tile_.InTile(mine);
      part->value =
          ir::Staged(ctx_, v, tile_.n(), at, tile_.MaybeValid(mine), std::span<const UOp>(&at, 1));
    }
    it = rows_.emplace(stage.id(), *part).first;
  }
  RowPart out = it->second;
  out.value =
      ir::Load(ctx_, ir::Index(ctx_, out.value, tile_.InTile(range), tile_.MaybeValid(range)));
  return out;
}

}  // namespace uopd::codegen
