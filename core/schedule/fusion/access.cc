// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/access.h"

#include <algorithm>

#include "core/base/table_key.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;

// Values of Step::what beside movement ops, for which it is the number of the op.
constexpr uint64_t kOperand = 0x100, kFewer = 0x200, kOffset = 0x400;

uint64_t Bits(const void* p) { return reinterpret_cast<uint64_t>(p); }

// True if the index is in [0, size) in every iteration, also where the gate is false.
bool IsInside(ir::UOpContext& ctx, UOp index, UOp size) {
  if (index.Is(Op::RANGE)) return index.src(0) == size;
  const ir::Bounds at = ctx.BoundsOf(index);
  return at.min >= 0 && at.max < ctx.BoundsOf(size).min;
}

// True if the index is 0 along every axis of size 1. It need not be: below a PAD it is 0 only where
// the gate is true.
bool IsAtZero(Shape shape, const Access& a) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].IsConstInt(1) && !a.index[i].IsConstInt(0)) return false;
  }
  return true;
}

}  // namespace

size_t Accesses::Hash::operator()(const Access* a) const {
  KeyedHash hash(TableKey(), a->gate.id());
  for (UOp i : a->index) hash.Add(i.id());
  return hash.get();
}

bool Accesses::Equal::operator()(const Access* a, const Access* b) const {
  return a->gate == b->gate && std::ranges::equal(a->index, b->index);
}

size_t Accesses::StepHash::operator()(const Step& s) const {
  KeyedHash hash(TableKey(), Bits(s.from));
  for (uint64_t v : {Bits(s.a), Bits(s.b), Bits(s.c)}) hash.Add(v);
  hash.Add(s.what);
  return hash.get();
}

const Access* Accesses::At(std::span<const UOp> index, UOp gate) {
  IndexList simple(index.size());
  std::ranges::transform(index, simple.begin(), [this](UOp i) { return Simple(i); });
  Access a = {simple, Simple(gate)};
  const auto it = known_.find(&a);
  if (it != known_.end()) return *it;
  a.ranges = used_.In(a.gate);
  a.height = used_.HeightOf(a.gate);
  for (UOp i : simple) {
    a.ranges |= used_.In(i);
    a.height = std::max(a.height, used_.HeightOf(i));
  }
  UOp* copy = arena_.AllocateArray<UOp>(simple.size());
  std::ranges::copy(simple, copy);
  a.index = {copy, simple.size()};
  const auto* made = new (arena_.Allocate(sizeof(Access))) Access(a);
  known_.insert(made);
  return made;
}

const Access* Accesses::OfSource(UOp u, const Access* a) {
  // The result depends only on shapes and arg of u, which many nodes have in common.
  Step step = {a, ctx_.ShapeOf(u.src(0)), nullptr, nullptr, static_cast<uint64_t>(u.op())};
  if (u.n_src() > 1) step.b = u.src(1).node();
  if (u.n_src() > 2)
    step.c = u.src(2).node();
  else if (u.Is(OpSet{Op::PERMUTE, Op::FLIP}))
    step.c = &u.arg().AsData();
  const auto [it, fresh] = steps_.try_emplace(step);
  if (!fresh) return it->second;
  UOp gate = a->gate;
  const IndexList index = SourceIndex(ctx_, u, a->index, gate);
  return it->second = At(index, gate);
}

const Access* Accesses::OfOperand(const Shape* in, const Shape* out, bool fewer, const Access* a) {
  if (in == out && IsAtZero(*in, *a)) return a;
  const Step step = {a, in, out, nullptr, kOperand | (fewer ? kFewer : 0)};
  const auto [it, fresh] = steps_.try_emplace(step);
  if (!fresh) return it->second;
  IndexList index;
  bool inside = fewer;
  const auto last = a->index.last(in->size());
  for (size_t i = 0; i < in->size(); ++i) {
    index.push_back((*in)[i].IsConstInt(1) ? ctx_.Idx(0) : last[i]);
    inside = inside && IsInside(ctx_, index.back(), (*in)[i]);
  }
  return it->second = At(index, inside ? ctx_.Bool(true) : a->gate);
}

UOp Accesses::Offset(const Shape* shape, const Access* a) {
  const auto [it, fresh] = offsets_.try_emplace({a, shape, nullptr, nullptr, kOffset});
  if (!fresh) return it->second;
  return it->second = simplify_.Run(FlatIndex(ctx_, ir::MaxDims(ctx_, *shape), a->index));
}

}  // namespace uopd::schedule
