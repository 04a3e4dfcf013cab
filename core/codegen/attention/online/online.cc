// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/online.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/attention/online/key_tile.h"
#include "core/codegen/attention/online/masked_keys.h"
#include "core/codegen/attention/online/row_terms.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using Kind = RowPart::Kind;

constexpr int64_t kMostElements = int64_t{1} << 20;  // of a state

absl::Status Inapplicable(std::string_view why) {
  return absl::InvalidArgumentError(Cat("ONLINE does not apply: ", why));
}

// The maximum over `range`; null if there is none, or several.
UOp MaybeMaximum(const ir::UOpContext& ctx, UOp sink, UOp range) {
  UOp out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(Op::REDUCE) || u.reduce_op() != Op::MAX || !ir::IsFloat(u.dtype())) continue;
    if (u.closed().size() != 1 || u.closed()[0] != range) continue;
    if (out) return UOp();
    out = u;
  }
  return out;
}

ir::Dtype WideStateDtype(ir::Dtype d) {
  return ir::Bits(d) < 32 || ir::IsSmallFloat(d) ? ir::Dtype::F32 : d;
}

UOp IsMinusInfinity(ir::UOpContext& ctx, UOp x) {
  return ir::Alu(ctx, Op::CMPEQ, {x, ctx.Float(x.dtype(), -INFINITY)});
}

// The RANGE over tiles of n of so many keys.
UOp RangeOfTiles(ir::UOpContext& ctx, UOp places, int64_t n, int64_t axis) {
  const UOp tiles =
      places.Is(Op::CONST)
          ? ctx.Idx((places.const_int() + n - 1) / n)
          : ir::Alu(ctx, Op::FLOORDIV, {rules::IndexSum(ctx, places, ctx.Idx(n - 1)), ctx.Idx(n)});
  return Range(ctx, tiles, axis, ir::AxisType::REDUCE);
}

int64_t FreeOnlineAxis(const ir::UOpContext& ctx, UOp sink) {
  int64_t out = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) out = std::max(out, u.axis_id() + 1);
  }
  return out;
}

struct OnlineState {
  UOp buffer, stage;
  ir::Dtype dtype = ir::Dtype::Void;
  std::vector<UOp> along;  // RANGEs of the kernel that number the elements
};

// Makes the states of the kernel, which tiles of keys change (online.h says how they look). The
// order of the calls for a state: New; Before and SetStage; and once all states have a stage, End
// and then After.
class OnlineStates {
 public:
  // `loop`: the RANGE over key tiles.
  OnlineStates(ir::UOpContext& ctx, UOp loop);

  // Whether a mask shows any key of a tile; null: there is no such mask. Stages that are set
  // later have the condition.
  void SetShown(UOp maybe_shown) { maybe_shown_ = maybe_shown; }
  // Whether this is not the first tile, in front of which states hold nothing.
  UOp later() const { return later_; }

  OnlineState New(ir::Dtype dtype, std::vector<UOp> along);
  // Where the element lies if `fresh` replaces the ranges.
  UOp Place(const OnlineState& state, const ir::Substitution& fresh);
  // What the iteration before stored at the place.
  UOp Before(const OnlineState& state, UOp at);
  // Says what an iteration stores at the place, for all `ranges`.
  void SetStage(OnlineState& state, UOp value, UOp at, std::span<const UOp> ranges);

  // Closes the loop over key tiles, which stores these stages in their order.
  void End(std::span<const UOp> stages);
  // An element behind that loop.
  UOp After(const OnlineState& state);

 private:
  ir::UOpContext& ctx_;
  const UOp loop_, later_;
  UOp maybe_shown_;
  UOp end_;             // of the loop over key tiles
  int64_t states_ = 0;  // that were made
};

OnlineStates::OnlineStates(ir::UOpContext& ctx, UOp loop)
    : ctx_(ctx), loop_(loop), later_(Lt(ctx, ctx.Idx(0), loop)) {}

OnlineState OnlineStates::New(ir::Dtype dtype, std::vector<UOp> along) {
  int64_t elements = 1;
  for (UOp r : along) elements *= r.src(0).const_int();
  const UOp buffer = ir::Buffer(ctx_, states_++, dtype, ir::ShapeArg(ctx_, ir::Dims{elements}),
                                ir::AddrSpace::REG);
  return {buffer, UOp(), dtype, std::move(along)};
}

UOp OnlineStates::Place(const OnlineState& state, const ir::Substitution& fresh) {
  UOp at = ctx_.Idx(0);
  for (UOp r : state.along) {
    const auto it = fresh.find(r.id());
    at = rules::IndexSum(ctx_, rules::IndexProduct(ctx_, at, r.src(0)),
                         it == fresh.end() ? r : it->second);
  }
  return at;
}

UOp OnlineStates::Before(const OnlineState& state, UOp at) {
  return ir::Load(ctx_, ir::Index(ctx_, state.buffer, at, later_));
}

void OnlineStates::SetStage(OnlineState& state, UOp value, UOp at, std::span<const UOp> ranges) {
  state.stage = ir::Staged(ctx_, value, (*ctx_.ShapeOf(state.buffer))[0].const_int(), at,
                           maybe_shown_, ranges);
}

void OnlineStates::End(std::span<const UOp> stages) {
  end_ =
      ir::End(ctx_, ctx_.Make(Op::GROUP, ir::Dtype::Void, stages), std::span<const UOp>(&loop_, 1));
}

UOp OnlineStates::After(const OnlineState& state) {
  return ir::Load(ctx_, ir::Index(ctx_, ir::After(ctx_, state.buffer, {end_}), Place(state, {})));
}

// Replaces the maximum and the sums that scale with it by states that tiles of its keys change.
class Online {
 public:
  Online(ir::UOpContext& ctx, UOp sink, UOp maximum, int64_t n)
      : ctx_(ctx),
        sink_(sink),
        maximum_(maximum),
        next_id_(FreeOnlineAxis(ctx, sink)),
        tile_(ctx, RangeOfTiles(ctx, maximum.closed()[0].src(0), n, next_id_++),
              maximum.closed()[0].src(0), n),
        states_(ctx, tile_.loop()),
        terms_(ctx, sink, maximum, tile_) {}

  absl::StatusOr<UOp> Run() {
    states_.SetShown(MaybeShown());
    if (!AddMaximum()) return Inapplicable("the maximum is not one of elements of a row");
    for (UOp u : ir::Toposort(ctx_, sink_)) {
      const bool sums = u.Is(Op::REDUCE) && u.reduce_op() == Op::ADD && tile_.IsOverRow(u);
      if (sums && terms_.UsesMaximum(u)) AddSum(u);
    }
    if (sums_.empty()) return Inapplicable("no sum scales with the maximum of the axis");
    const UOp out = ir::Substitute(ctx_, sink_, Results());
    for (UOp u : ir::Toposort(ctx_, out)) {
      if (u == maximum_ || terms_.stages().contains(u.id()))
        return Inapplicable("something else needs the whole row");
    }
    return out;
  }

 private:
  struct Sum {
    UOp reduce;
    OnlineState state;
    RowPart part;
  };

  // Whether the mask shows any key of the tile; null: there is no such mask.
  UOp MaybeShown() {
    std::vector<UOp> sums;
    for (UOp u : ir::Toposort(ctx_, sink_)) {
      if (u.Is(Op::REDUCE) && u != maximum_ && tile_.IsOverRow(u) && terms_.UsesMaximum(u))
        sums.push_back(u);
    }
    const UOp from = MaybeMaskedFrom(ctx_, maximum_, sums);
    return from ? Lt(ctx_, tile_.Begin(), from) : UOp();
  }
  // The reduction of a part over a tile; in the padding its terms are `identity`.
  UOp OverTile(UOp reduce, UOp term, ir::Dtype dtype, double identity) {
    const UOp range = reduce.closed()[0], mine = tile_.InTile(range);
    UOp x = ir::Cast(ctx_, term, dtype);
    if (const UOp valid = tile_.MaybeValid(range))
      x = Where(ctx_, valid, x, ctx_.Float(dtype, identity));
    return ir::ReduceRanges(ctx_, reduce.reduce_op(), x, std::span<const UOp>(&mine, 1));
  }

  bool AddMaximum() {
    const auto part = terms_.Copy(maximum_, {});
    if (!part || part->kind != Kind::kFree || !part->factors.empty()) return false;
    most_ = states_.New(WideStateDtype(maximum_.dtype()), {});
    const UOp here = OverTile(maximum_, part->value, most_.dtype, -INFINITY);
    const UOp before = states_.Before(most_, ctx_.Idx(0));
    const UOp now = Where(ctx_, states_.later(), ir::Alu(ctx_, Op::MAX, {before, here}), here);
    states_.SetStage(most_, now, ctx_.Idx(0), {});
    const UOp finite = Where(ctx_, IsMinusInfinity(ctx_, now), ctx_.Float(now.dtype(), 0), now);
    terms_.SetMaximumSoFar(ir::Cast(ctx_, finite, maximum_.dtype()));
    risen_ = Sub(ctx_, before, finite);
    return true;
  }

  void AddSum(UOp reduce) {
    // The elements of the state: what the sum depends on and the maximum does not.
    std::vector<UOp> along, inside;
    ir::Substitution fresh;
    int64_t elements = 1, id = next_id_;
    for (UOp r : ir::Toposort(ctx_, reduce)) {
      if (!r.Is(Op::RANGE) || !terms_.open().Varies(reduce, r) || terms_.open().Varies(maximum_, r))
        continue;
      if (!r.src(0).Is(Op::CONST)) return;
      elements *= std::max<int64_t>(1, r.src(0).const_int());
      if (elements > kMostElements) return;
      along.push_back(r);
    }
    std::ranges::sort(along, {}, [](UOp r) { return std::pair(r.axis_id(), r.id()); });
    for (UOp r : along) {
      inside.push_back(Range(ctx_, r.src(0), id++, ir::AxisType::REDUCE));
      fresh[r.id()] = inside.back();
    }
    auto part = terms_.Copy(reduce, fresh);
    if (!part || (part->kind != Kind::kFree && part->kind != Kind::kScaled)) return;
    next_id_ = id;
    const ir::Dtype dtype = WideStateDtype(reduce.dtype());
    Sum sum{reduce, states_.New(dtype, along), *part};
    const UOp here = OverTile(reduce, part->value, dtype, 0), at = states_.Place(sum.state, fresh);
    UOp before = states_.Before(sum.state, at);
    if (part->kind == Kind::kScaled) {
      const UOp by = Mul(ctx_, risen_, ctx_.Float(risen_.dtype(), part->amount));
      before = Mul(ctx_, before, ir::Cast(ctx_, ir::Alu(ctx_, Op::EXP2, {by}), dtype));
    }
    states_.SetStage(sum.state, Where(ctx_, states_.later(), Add(ctx_, before, here), here), at,
                     inside);
    terms_.AddSum(reduce);
    sums_.push_back(std::move(sum));
  }

  // What replaces the maximum and the sums.
  ir::Substitution Results() {
    std::vector<UOp> stages;
    for (size_t i = sums_.size(); i-- > 0;) stages.push_back(sums_[i].state.stage);
    stages.push_back(most_.stage);
    states_.End(stages);
    const UOp most = states_.After(most_);
    ir::Substitution out;
    out[maximum_.id()] = ir::Cast(ctx_, most, maximum_.dtype());
    for (const Sum& s : sums_) {
      UOp value = states_.After(s.state);
      if (s.part.kind == Kind::kScaled)
        value = Where(ctx_, IsMinusInfinity(ctx_, most), ctx_.Float(s.state.dtype, NAN), value);
      value = ir::Cast(ctx_, value, s.reduce.dtype());
      for (const RowPart::Factor& f : s.part.factors) {
        const UOp by = ir::Substitute(ctx_, f.value, out);
        value = ir::Alu(ctx_, f.divides ? Op::FDIV : Op::MUL,
                        {value, ir::Cast(ctx_, by, value.dtype())});
      }
      out[s.reduce.id()] = value;
    }
    return out;
  }

  ir::UOpContext& ctx_;
  const UOp sink_, maximum_;
  int64_t next_id_;  // of RANGEs that are made
  KeyTile tile_;
  OnlineStates states_;
  RowTerms terms_;
  UOp risen_;  // the maximum before a tile, less the one after it
  OnlineState most_;
  std::vector<Sum> sums_;
};

}  // namespace

absl::StatusOr<UOp> MakeOnline(ir::UOpContext& ctx, UOp sink, UOp range, int64_t n) {
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (ClosesStates(u)) return Inapplicable("the kernel has an ONLINE already");
    if (u.Is(Op::SCAN)) return Inapplicable("the kernel has running sums");
  }
  const UOp maximum = MaybeMaximum(ctx, sink, range);
  if (!maximum) return Inapplicable("the axis is not that of one maximum");
  const ir::Bounds size = ctx.BoundsOf(range.src(0));
  // The sums of no element are 0, and a quotient of two such is not.
  if (size.min < 1) return Inapplicable("the axis may have no element");
  if (n < 1 || n >= size.max) return Inapplicable("a key tile would have the whole axis");
  return Online(ctx, sink, maximum, n).Run();
}

bool ClosesStates(UOp u) {
  return u.Is(Op::END) && u.src(0).Is(Op::GROUP) && u.src(0).n_src() > 0 &&
         u.src(0).src(0).Is(Op::STAGE);
}

UOp MaybeState(UOp u) {
  if (u.Is(Op::AFTER)) u = u.src(0);
  return u.Is(Op::BUFFER) ? u : UOp();
}

absl::flat_hash_map<uint32_t, UOp> StatesOf(const ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, UOp> out;
  std::vector<UOp> buffers;
  UOp group;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::BUFFER)) buffers.push_back(u);
    if (ClosesStates(u)) group = u.src(0);
  }
  if (!group) return out;
  for (UOp b : buffers) out[b.id()] = group.src(group.n_src() - 1 - static_cast<size_t>(b.slot()));
  return out;
}

}  // namespace uopd::codegen
