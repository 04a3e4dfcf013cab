// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/access.h"

#include <algorithm>

#include "core/base/table_key.h"
#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::schedule {

namespace {

using ir::Op;
using ir::Shape;
using ir::UOp;
using ir::UOpContext;

using rules::IndexProduct;
using rules::IndexSum;

// Indices of the axes [in_from, in_to) of `in`, which hold the same elements as the axes [from, to)
// of `out`: the flat index of the latter, divided by the sizes of the former.
void ReshapeGroup(UOpContext& ctx, Shape out, size_t from, size_t to, std::span<const UOp> index,
                  Shape in, size_t in_from, size_t in_to, IndexList& result) {
  if (to - from == 1 && in_to - in_from == 1) {
    result[in_from] = index[from];
    return;
  }
  absl::InlinedVector<UOp, 8> strides(to - from);
  UOp stride = ctx.Idx(1);
  for (size_t i = to; i-- > from;) {
    strides[i - from] = stride;
    stride = IndexProduct(ctx, stride, out[i]);
  }
  UOp flat = ctx.Idx(0);
  for (size_t i = from; i < to; ++i) {
    if (out[i].IsConstInt(1)) continue;
    flat = IndexSum(ctx, flat, IndexProduct(ctx, index[i], strides[i - from]));
  }
  for (size_t i = in_to; i-- > in_from;) {
    if (in[i].IsConstInt(1)) {
      result[i] = ctx.Idx(0);
      continue;
    }
    bool outermost = true;
    for (size_t j = in_from; j < i; ++j) outermost &= in[j].IsConstInt(1);
    result[i] = outermost ? flat : ir::Alu(ctx, Op::FLOORMOD, {flat, in[i]});
    if (!outermost) flat = ir::Alu(ctx, Op::FLOORDIV, {flat, in[i]});
  }
}

// Splits both shapes into the smallest groups of axes with equal products. So the index of an axis
// that the RESHAPE keeps, also of symbolic size, needs no arithmetic.
IndexList Reshape(UOpContext& ctx, Shape out, Shape in, std::span<const UOp> index) {
  IndexList result(in.size(), ctx.Idx(0));
  size_t i = 0, j = 0;
  while (i < out.size() || j < in.size()) {
    size_t i_end = i, j_end = j;
    ir::Int128 n_out = 1, n_in = 1;
    std::vector<UOp> s_out, s_in;  // symbolic factors not yet matched
    auto take = [](Shape s, size_t& at, ir::Int128& n, std::vector<UOp>& mine,
                   std::vector<UOp>& other) {
      const UOp d = s[at++];
      if (d.Is(Op::CONST)) {
        n *= d.const_int();
      } else if (auto it = std::find(other.begin(), other.end(), d); it != other.end()) {
        other.erase(it);
      } else {
        mine.push_back(d);
      }
    };
    auto balanced = [&] {
      return n_out == n_in && s_out.empty() && s_in.empty() && (i_end > i || i == out.size()) &&
             (j_end > j || j == in.size());
    };
    while (!balanced() && (i_end < out.size() || j_end < in.size())) {
      const bool out_behind = i_end < out.size() && (j_end == in.size() || (i_end == i) ||
                                                     (j_end > j && n_out < n_in) || !s_in.empty());
      if (out_behind)
        take(out, i_end, n_out, s_out, s_in);
      else
        take(in, j_end, n_in, s_in, s_out);
    }
    ReshapeGroup(ctx, out, i, i_end, index, in, j, j_end, result);
    i = i_end;
    j = j_end;
  }
  return result;
}

}  // namespace

IndexList SourceIndex(UOpContext& ctx, UOp u, std::span<const UOp> index, UOp& gate) {
  const Shape out = *ctx.ShapeOf(u), in = *ctx.ShapeOf(u.src(0));
  IndexList result(in.size());
  switch (u.op()) {
    case Op::RESHAPE:
      return Reshape(ctx, out, in, index);
    case Op::EXPAND:
      for (size_t i = 0; i < in.size(); ++i) {
        const size_t o = out.size() - in.size() + i;
        result[i] = in[i].IsConstInt(1) ? ctx.Idx(0) : index[o];
      }
      return result;
    case Op::PERMUTE:
      for (size_t i = 0; i < in.size(); ++i) result[static_cast<size_t>(u.ints()[i])] = index[i];
      return result;
    case Op::FLIP:
      result.assign(index.begin(), index.end());
      for (int64_t a : u.ints()) {
        const auto i = static_cast<size_t>(a);
        const UOp last = IndexSum(ctx, in[i], ctx.Idx(-1));
        result[i] = IndexSum(ctx, IndexProduct(ctx, index[i], ctx.Idx(-1)), last);
      }
      return result;
    case Op::SHRINK:
      for (size_t i = 0; i < in.size(); ++i) {
        const UOp start = u.src(1).src(i);
        result[i] = IndexSum(ctx, index[i], start);
      }
      return result;
    default:  // PAD
      for (size_t i = 0; i < in.size(); ++i) {
        const UOp before = u.src(1).src(i);
        if (out[i] == in[i]) {
          result[i] = index[i];
          continue;
        }
        result[i] = before.Is(Op::CONST) ? IndexSum(ctx, index[i], ctx.Idx(-before.const_int()))
                                         : ir::Sub(ctx, index[i], before);
        if (!before.IsConstInt(0))
          gate = ir::And(ctx, gate, ir::Not(ctx, ir::Lt(ctx, index[i], before)));
        gate = ir::And(ctx, gate, ir::Lt(ctx, result[i], in[i]));
      }
      return result;
  }
}

UOp FlatIndex(UOpContext& ctx, std::span<const int64_t> dims, std::span<const UOp> index) {
  int64_t stride = 1;
  for (int64_t d : dims) stride *= d;
  UOp flat = ctx.Idx(0);
  for (size_t i = 0; i < dims.size() && stride > 0; ++i) {
    stride /= dims[i];
    if (dims[i] != 1) flat = IndexSum(ctx, flat, IndexProduct(ctx, index[i], ctx.Idx(stride)));
  }
  return flat;
}

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
