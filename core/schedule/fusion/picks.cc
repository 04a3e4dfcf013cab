// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/picks.h"

#include <algorithm>

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;

constexpr size_t kMaxRank = 64;
constexpr uint64_t kAll = ~uint64_t{0};

uint64_t Bit(size_t rank, size_t axis) { return uint64_t{1} << (rank - 1 - axis); }

// True for dtypes that hold every position exactly and that the rules compare as indices.
bool HoldsPositions(ir::Dtype d) {
  return ir::IsInt(d) && ir::Bits(d) >= 32 && d != ir::Dtype::U64;
}

bool IsZero(UOp u) { return u.IsConst(0); }

}  // namespace

Picks::Facts Picks::Elementwise(UOp u, std::span<const Facts* const> from) {
  Facts out;
  for (const Facts* f : from) out.varies |= f->varies;
  switch (u.op()) {
    case Op::CAST:
      if (HoldsPositions(u.dtype())) {
        out.counts = from[0]->counts;
        out.shifted = from[0]->shifted;
      }
      if (u.src(0).dtype() == ir::Dtype::Bool) out.picks = from[0]->picks;
      break;
    case Op::ADD:  // with a constant only: other sums may wrap
      for (size_t i = 0; i < 2; ++i) {
        if (u.src(1 - i).Is(Op::CONST)) out.counts = out.shifted = from[i]->counts;
      }
      break;
    case Op::CMPEQ:
      for (size_t i = 0; i < 2; ++i) {
        // With 64 bits, subtracting the constant may overflow the index.
        const uint64_t solved = ir::Bits(u.src(0).dtype()) == 64
                                    ? from[i]->counts & ~from[i]->shifted
                                    : from[i]->counts;
        out.picks |= solved & ~from[1 - i]->varies;
      }
      break;
    case Op::AND:
      out.picks = from[0]->picks | from[1]->picks;
      break;
    case Op::MUL:  // by a condition as a number; not for floats, since NaN times 0 is not 0
      for (size_t i = 0; i < 2; ++i) {
        if (u.src(i).Is(Op::CAST) && !ir::IsFloat(u.dtype())) out.picks |= from[i]->picks;
      }
      break;
    case Op::WHERE:
      if (IsZero(u.src(2))) out.picks = from[0]->picks | from[1]->picks;
      break;
    default:
      break;
  }
  return out;
}

// Copies the facts about one axis to another.
void Picks::Carry(const Facts& from, uint64_t theirs, Facts& to, uint64_t mine) {
  if (from.varies & theirs) to.varies |= mine;
  if (from.counts & theirs) to.counts |= mine;
  if (from.shifted & theirs) to.shifted |= mine;
  if (from.picks & theirs) to.picks |= mine;
}

// Facts of a RESHAPE that only adds and removes axes of size 1; nothing is known of others.
Picks::Facts Picks::Reshaped(Shape out, Shape in, const Facts& from) {
  Facts f;
  size_t i = in.size();
  for (size_t o = out.size(); o-- > 0;) {
    if (out[o].IsConstInt(1)) continue;
    while (i > 0 && in[i - 1].IsConstInt(1)) --i;
    if (i == 0 || in[i - 1] != out[o]) return {.varies = kAll};
    --i;
    const uint64_t mine = Bit(out.size(), o), theirs = Bit(in.size(), i);
    Carry(from, theirs, f, mine);
  }
  return f;
}

Picks::Facts Picks::Moved(UOp u, Shape out, Shape in, const Facts& from) {
  Facts f = from;
  f.collapses = 0;
  switch (u.op()) {
    case Op::EXPAND:
      break;
    case Op::RESHAPE:
      return Reshaped(out, in, from);
    case Op::PERMUTE:
      f = {};
      for (size_t o = 0; o < out.size(); ++o) {
        const uint64_t mine = Bit(out.size(), o),
                       theirs = Bit(in.size(), static_cast<size_t>(u.ints()[o]));
        Carry(from, theirs, f, mine);
      }
      break;
    case Op::PAD:
      f.varies = kAll;
      f.counts = f.shifted = 0;
      break;
    default:  // SHRINK, FLIP
      break;
  }
  return f;
}

Picks::Picks(ir::UOpContext& ctx, std::span<const UOp> order) {
  if (std::none_of(order.begin(), order.end(), [](UOp u) { return u.Is(Op::IOTA); })) return;
  facts_.resize(order.size());
  std::vector<uint32_t> position(ctx.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    const UOp u = order[i];
    position[u.id()] = i;
    Facts& f = facts_[i];
    if (u.Is(OpSet{Op::CONST, Op::DEFINE_VAR})) continue;
    const Shape* shape = ctx.ShapeOf(u);
    if (shape == nullptr || shape->size() > kMaxRank) {
      f.varies = kAll;
      continue;
    }
    auto of = [&](UOp s) { return &facts_[position[s.id()]]; };
    const bool of_one = u.Is(ir::kMovementOps) || u.Is(Op::REDUCE);
    const Shape* in = of_one ? ctx.ShapeOf(u.src(0)) : nullptr;
    if (u.Is(Op::IOTA)) {
      f.varies = Bit(shape->size(), Index(u.arg().AsInt()));
      if (HoldsPositions(u.dtype())) f.counts = f.varies;
    } else if (of_one && in->size() > kMaxRank) {
      f.varies = kAll;
    } else if (u.Is(ir::kMovementOps)) {
      f = Moved(u, *shape, *in, *of(u.src(0)));
    } else if (u.Is(Op::REDUCE)) {
      f = *of(u.src(0));
      f.counts = f.shifted = f.collapses = 0;
      for (int64_t a : u.reduce_axes()) {
        const uint64_t axis = Bit(in->size(), Index(a));
        if (u.reduce_op() == Op::ADD) f.collapses |= f.picks & axis;
        f.varies &= ~axis;
        f.picks &= ~axis;
      }
    } else if (u.Is(ir::kElementwiseOps)) {
      absl::InlinedVector<const Facts*, 3> from;
      for (UOp s : u.srcs()) from.push_back(of(s));
      f = Elementwise(u, from);
    } else {
      f.varies = kAll;
    }
    // Nothing varies along an axis of size 1.
    for (size_t a = 0; a < shape->size(); ++a) {
      if ((*shape)[a].IsConstInt(1)) f.varies &= ~Bit(shape->size(), a);
    }
  }
}

double Picks::TermsOf(ir::UOpContext& ctx, uint32_t position, UOp u) const {
  const Shape in = *ctx.ShapeOf(u.src(0));
  double terms = 1;
  for (int64_t a : u.reduce_axes()) {
    if (!Collapses(position, in.size(), a))
      terms *= static_cast<double>(ctx.BoundsOf(in[Index(a)]).max);
  }
  return terms;
}

}  // namespace uopd::schedule
