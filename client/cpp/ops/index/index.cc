// SPDX-License-Identifier: MIT
// Index expressions. Reading: a slice of every axis, a reshape that drops and adds axes, and one
// selection by positions in the joined axes of all tensors. Writing does the inverse of each step.
#include <algorithm>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "uopd/indexing.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

// The elements lo, lo + step, ... of an axis, in reverse order if flipped.
struct Cut {
  int64_t lo = 0, step = 1, count = 0;
  bool flipped = false;
  bool Whole(int64_t n) const { return count == n && !flipped; }
};

// As Python's slice.indices.
Cut CutOf(const Range& r, int64_t n) {
  const bool back = r.step < 0;
  auto clamp = [&](std::optional<int64_t> v, int64_t none) {
    if (!v) return none;
    return std::clamp<int64_t>(*v < 0 ? *v + n : *v, back ? -1 : 0, back ? n - 1 : n);
  };
  const int64_t from = clamp(r.begin, back ? n - 1 : 0), to = clamp(r.end, back ? -1 : n);
  Cut c{.lo = from, .step = std::min(std::abs(r.step), std::max<int64_t>(n, 1)), .flipped = back};
  const int64_t span = back ? from - to : to - from;
  c.count = span <= 0 ? 0 : (span + c.step - 1) / c.step;
  if (back && c.count > 0) c.lo = from - (c.count - 1) * c.step;
  if (c.count <= 1) c.step = 1, c.flipped = false;
  if (c.count == 0) c.lo = 0;
  return c;
}

// What an index expression says about a tensor.
struct Plan {
  std::optional<Tensor> error;
  std::vector<Cut> cuts;                 // one for each axis
  Dims box;                              // counts of the cuts
  Dims part;                             // box without the axes of integers, with new axes
  std::vector<size_t> axes;              // of part, that tensors select from
  std::vector<const Tensor*> positions;  // for each of them
};

Plan PlanOf(std::string_view what, const Tensor& x, std::span<const IndexItem> items, Site site) {
  Plan p;
  auto wrong = [&](std::string message) {
    p.error = Wrong(x, what, site, std::move(message));
    return p;
  };
  if ((p.error = Refused(what, {&x}, site))) return p;
  size_t taken = 0, rests = 0;
  for (const IndexItem& item : items) {
    if (std::holds_alternative<IndexItem::Rest>(item.item()))
      ++rests;
    else if (!std::holds_alternative<IndexItem::NewAxis>(item.item()))
      ++taken;
  }
  const size_t rank = x.dims().size();
  if (rests > 1) return wrong("there is more than one ellipsis");
  if (taken > rank) return wrong(Cat(taken, " indices for shape ", Text(x.dims())));
  auto keep = [&](const Range& r) {
    const Cut c = CutOf(r, x.dims()[p.cuts.size()]);
    p.cuts.push_back(c);
    p.box.push_back(c.count);
    p.part.push_back(c.count);
  };
  for (const IndexItem& item : items) {
    const size_t axis = p.cuts.size();
    if (const auto* at = std::get_if<int64_t>(&item.item())) {
      const auto i = Axis(*at, x.dims()[axis]);
      if (!i) return wrong(Cat("index ", *at, " on axis ", axis, " of shape ", Text(x.dims())));
      p.cuts.push_back({.lo = *i, .count = 1});
      p.box.push_back(1);
    } else if (const auto* range = std::get_if<Range>(&item.item())) {
      if (range->step == 0 || range->step == INT64_MIN)
        return wrong(Cat("step of axis ", axis, " is ", range->step));
      keep(*range);
    } else if (const auto* tensor = std::get_if<const Tensor*>(&item.item())) {
      const Tensor& t = **tensor;
      if ((p.error = Refused(what, {&x, &t}, site))) return p;
      if (t.dtype() == Dtype::Bool) {
        return wrong(Cat("a tensor of bools on axis ", axis,
                         " selects a number of elements that is not known: use MaskedSelect with a "
                         "size, Where or MaskedFill"));
      }
      if (!ir::IsInt(t.dtype())) return wrong(Cat("an index of ", ir::Name(t.dtype())));
      p.axes.push_back(p.part.size());
      p.positions.push_back(&t);
      keep({});
    } else if (std::holds_alternative<IndexItem::NewAxis>(item.item())) {
      p.part.push_back(1);
    } else {
      for (size_t i = taken; i < rank; ++i) keep({});
    }
  }
  while (p.cuts.size() < rank) keep({});
  return p;
}

Tensor PartOf(const Tensor& x, const Plan& p, Site site) {
  Tensor out = x;
  std::vector<Range> ranges(p.cuts.size());
  for (size_t i = 0; i < p.cuts.size(); ++i) {
    const Cut& c = p.cuts[i];
    ranges[i] = {c.lo, c.count == 0 ? c.lo : c.lo + (c.count - 1) * c.step + 1, c.step};
  }
  out = out.Slice(ranges, site);
  Dims flips;
  for (size_t i = 0; i < p.cuts.size(); ++i) {
    if (p.cuts[i].flipped) flips.push_back(static_cast<int64_t>(i));
  }
  return out.Flip(flips, site).Reshape(p.part, site);
}

// The inverse of PartOf: v at its places in a tensor of these dims, 0 elsewhere.
Tensor Placed(const Tensor& v, const Plan& p, const Dims& dims, Site site) {
  Tensor out = v.Reshape(p.box, site);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Cut& c = p.cuts[i];
    const auto axis = static_cast<int64_t>(i);
    if (c.Whole(dims[i])) continue;
    if (c.flipped) out = out.Flip({axis}, site);
    int64_t length = c.count;
    if (c.step > 1) {
      Dims none(dims.size() + 1, 0), after = none, joined = out.dims();
      after[i + 1] = c.step - 1;
      joined[i] *= c.step;
      out = out.Unsqueeze(axis + 1, site).Pad(none, after, 0, site).Reshape(joined, site);
      length = std::min(c.count * c.step, dims[i] - c.lo);
      out = out.Narrow(axis, 0, length, site);
    }
    Dims before(dims.size(), 0), after = before;
    before[i] = c.lo;
    after[i] = dims[i] - c.lo - length;
    out = out.Pad(before, after, 0, site);
  }
  return out;
}

// The selection by tensors: the part as (joined axes of the tensors, others), and positions in it.
struct Selection {
  Tensor position;    // not negative; beyond the axis if out of range
  int64_t count = 1;  // of the joined axes
  Dims order, rest;   // axes of the part: first those of tensors; sizes of the others
  Dims back;          // order of axes from (position..., rest...) to the result
};

absl::StatusOr<Selection> SelectionOf(const Tensor& x, const Plan& p, Site site) {
  Selection s;
  ir::SymbolicDims common;
  Tensor sum, inside;
  for (size_t i = 0; i < p.axes.size(); ++i) {
    const Tensor& t = *p.positions[i];
    const auto joined = ir::BroadcastShapes(i == 0 ? ShapeOf(t) : ir::Shape(common), ShapeOf(t));
    if (!joined) {
      return Located(
          "Index", site,
          absl::InvalidArgumentError(Cat("positions of shapes ", Text(p.positions[0]->dims()),
                                         " and ", Text(t.dims()), " do not broadcast")));
    }
    common = *joined;
    const int64_t n = p.part[p.axes[i]];
    const Tensor at = t.Cast(Dtype::I64, site);
    const Tensor from = Where(at < 0, at + n, at);
    const Tensor fits = (from >= 0) & (from < n);
    sum = i == 0 ? from : sum * n + from;
    inside = i == 0 ? fits : inside & fits;
    s.count *= n;
  }
  s.position = Where(inside, sum, s.count);
  for (size_t a : p.axes) s.order.push_back(static_cast<int64_t>(a));
  for (size_t i = 0; i < p.part.size(); ++i) {
    if (std::find(p.axes.begin(), p.axes.end(), i) != p.axes.end()) continue;
    s.order.push_back(static_cast<int64_t>(i));
    s.rest.push_back(p.part[i]);
  }
  const bool neighbours = p.axes.back() - p.axes.front() + 1 == p.axes.size();
  const int64_t first = neighbours ? static_cast<int64_t>(p.axes.front()) : 0,
                rank = s.position.rank(), others = static_cast<int64_t>(s.rest.size());
  for (int64_t i = 0; i < first; ++i) s.back.push_back(rank + i);
  for (int64_t i = 0; i < rank; ++i) s.back.push_back(i);
  for (int64_t i = first; i < others; ++i) s.back.push_back(rank + i);
  return s;
}

Dims Inverse(const Dims& order) {
  Dims out(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

// The shape of x[items].
Dims ResultDims(const Plan& p, const Selection& s) {
  if (p.axes.empty()) return p.part;
  Dims all = s.position.dims(), out;
  all.insert(all.end(), s.rest.begin(), s.rest.end());
  for (int64_t a : s.back) out.push_back(all[static_cast<size_t>(a)]);
  return out;
}

// The part as (joined axes, others joined).
Tensor Rows(const Tensor& part, const Selection& s, Site site) {
  return part.Permute(s.order, site).Reshape({s.count, ir::Product(s.rest)}, site);
}

// `part` with the selected elements replaced by `value`, which has the shape of the result.
Tensor PutSelected(const Tensor& part, const Tensor& value, const Selection& s, bool accumulate,
                   Site site) {
  const int64_t m = s.position.size(), width = ir::Product(s.rest);
  const Tensor from = value.Permute(Inverse(s.back), site).Reshape({m, width}, site);
  const Tensor rows = Rows(part, s, site);
  const Tensor at = s.position.Reshape({1, m}, site);
  const Tensor hit = at == IotaLike(part, s.count, Dtype::I64).Unsqueeze(-1, site);
  Tensor out;
  if (accumulate) {
    const Tensor terms = Where(hit.Unsqueeze(-1, site), from.Unsqueeze(0, site), Like(from, 0));
    const Tensor sum = terms.Sum({1}, false, site);
    out = (rows + sum).Cast(part.dtype(), site);
  } else {
    // The number of the last value for each row, from 1 on; 0: there is none.
    const Tensor number = IotaLike(part, m, Dtype::I64) + 1;
    const Tensor last = Where(hit, number, 0).Max({1}, false, site);
    const Tensor chosen = from.IndexSelect(0, last - 1, site);
    out = Where({(last > 0).Unsqueeze(-1, site), site}, chosen, rows);
  }
  Dims split;
  for (int64_t a : s.order) split.push_back(part.dims()[static_cast<size_t>(a)]);
  return out.Reshape(split, site).Permute(Inverse(s.order), site);
}

// The value as a tensor of x's dtype and these dims; leading axes of size 1 may be too many.
Tensor ValueFor(const Tensor& x, Operand value, const Dims& dims) {
  const Site site = value.site();
  if (value.tensor() == nullptr) {
    const absl::Status fits = CheckNumber(x.dtype(), value);
    if (!fits.ok()) return Poisoned(x.state()->graph, Located("IndexPut", site, fits));
    return NumberLike(x, x.dtype(), value).Expand(dims, site);
  }
  const Tensor& v = *value.tensor();
  if (auto error = Refused("IndexPut", {&x, &v}, site)) return *error;
  Dims from = v.dims();
  while (from.size() > dims.size() && from[0] == 1) from.erase(from.begin());
  bool fits = from.size() <= dims.size();
  for (size_t i = 0; fits && i < from.size(); ++i) {
    const int64_t d = from[from.size() - 1 - i];
    fits = d == 1 || d == dims[dims.size() - 1 - i];
  }
  if (!fits) {
    return Wrong(x, "IndexPut", site,
                 Cat("a value of shape ", Text(v.dims()), " for a part of shape ", Text(dims)));
  }
  return v.Cast(x.dtype(), site).Reshape(from, site).Expand(dims, site);
}

}  // namespace

Tensor Index(const Tensor& x, std::span<const IndexItem> items, Site site) {
  const Plan p = PlanOf("Index", x, items, site);
  if (p.error) return *p.error;
  Tensor part = PartOf(x, p, site);
  if (p.axes.empty() || !part.status().ok()) return part;
  const auto s = SelectionOf(x, p, site);
  if (!s.ok()) return Poisoned(x.state()->graph, s.status());
  Dims split = s->position.dims();
  split.insert(split.end(), s->rest.begin(), s->rest.end());
  return Rows(part, *s, site)
      .IndexSelect(0, s->position, site)
      .Reshape(split, site)
      .Permute(s->back, site);
}

Tensor IndexPut(const Tensor& x, std::span<const IndexItem> items, Operand value, bool accumulate) {
  const Site site = value.site();
  const Plan p = PlanOf("IndexPut", x, items, site);
  if (p.error) return *p.error;
  Selection s;
  if (!p.axes.empty()) {
    auto selection = SelectionOf(x, p, site);
    if (!selection.ok()) return Poisoned(x.state()->graph, selection.status());
    s = *std::move(selection);
  }
  Tensor v = ValueFor(x, value, ResultDims(p, s));
  if (!v.status().ok()) return v;
  Tensor part = v;
  if (!p.axes.empty())
    part = PutSelected(PartOf(x, p, site), v, s, accumulate, site);
  else if (accumulate)
    part = PartOf(x, p, site) + v;
  bool whole = true;
  for (size_t i = 0; i < p.cuts.size(); ++i) whole &= p.cuts[i].Whole(x.dims()[i]);
  if (whole) return part.Reshape(x.dims(), site).Cast(x.dtype(), site);
  const Tensor inside = Placed(TrueLike(part), p, x.dims(), site);
  return Where({inside, site}, Placed(part, p, x.dims(), site).Cast(x.dtype(), site), x);
}

absl::Status AssignIndex(Tensor& x, std::span<const IndexItem> items, Operand value) {
  UOPD_TRY(x.status());
  const Site site = value.site();
  const Plan p = PlanOf("AssignIndex", x, items, site);
  if (p.error) return p.error->status();
  if (!p.axes.empty()) {
    const Tensor put = IndexPut(x, items, value);
    if (!x.is_view()) return x.TryAssign({put, site});
    const Tensor none = TrueLike(x).Not(site);
    return AssignChanged(x, put, IndexPut(none, items, {1.0, site}), site);
  }
  // An assignment to the part, which is a view, also changes x.
  Tensor part = PartOf(x, p, site);
  UOPD_TRY(part.status());
  const Tensor v = ValueFor(x, value, p.part);
  UOPD_TRY(v.status());
  return v.size() == 0 ? absl::OkStatus() : part.TryAssign({v, site});
}

std::pair<Tensor, Tensor> JoinAxes(const Tensor& x, const Dims& axes,
                                   std::span<const Tensor> positions, Site site) {
  auto both = [](const Tensor& t) { return std::pair(t, t); };
  if (auto error = FirstError("JoinAxes", {&x}, site)) return both(*error);
  if (axes.empty() || axes.size() != positions.size())
    return both(Wrong(x, "JoinAxes", site, Cat(positions.size(), " positions for ", axes.size())));
  ir::UOpContext& ctx = Ctx(x);
  const ir::SymbolicDims sizes = SizesOf(x);
  Dims front;
  Tensor at, inside;
  ir::UOp count = ctx.Idx(1);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (auto error = FirstError("JoinAxes", {&x, &positions[i]}, site)) return both(*error);
    const auto a = Axis(axes[i], x.rank());
    if (!a) return both(Wrong(x, "JoinAxes", site, Cat("axis ", axes[i], " of ", ShapeText(x))));
    const ir::UOp n = sizes[static_cast<size_t>(*a)];
    const Tensor from = FromStart(positions[i], x, *a, site);
    const Tensor here = from < SizeTensor(x, n);
    const Tensor place = Where(here, from, 0);
    at = i == 0 ? place : at * SizeTensor(x, n) + place;
    inside = i == 0 ? here : inside & here;
    count = ProductOf(ctx, count, n);
    front.push_back(static_cast<int64_t>(i));
  }
  const Tensor moved = MoveAxis(x, axes, front, site);
  if (!moved.status().ok()) return both(moved);
  ir::SymbolicDims joined = SizesOf(moved);
  joined.erase(joined.begin() + 1, joined.begin() + static_cast<ptrdiff_t>(axes.size()));
  joined[0] = count;
  return {ReshapeTo(moved, joined, "JoinAxes", site),
          Where({inside, site}, at, SizeTensor(x, ctx.Idx(INT64_MAX / 2)))};
}

Tensor Take(const Tensor& x, const Tensor& index, Site site) {
  if (auto error = FirstError("Take", {&x, &index}, site)) return *error;
  return x.Flatten(0, site).IndexSelect(0, index, site);
}

namespace {

// The sizes as index arithmetic in the graph of x. A size of -1 is that of x, if `kept`.
absl::StatusOr<ir::SymbolicDims> DimsOf(const Tensor& x, std::span<const Size> sizes, bool kept) {
  const ir::Shape shape = ShapeOf(x);
  const size_t extra = sizes.size() < shape.size() ? 0 : sizes.size() - shape.size();
  ir::SymbolicDims to;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Size& s = sizes[i];
    if (kept && s.tensor() == nullptr && s.number() == -1 && i >= extra) {
      to.push_back(shape[i - extra]);
      continue;
    }
    if (s.tensor() == nullptr && s.number() < 0)
      return absl::InvalidArgumentError(Cat("size ", s.number(), " is negative"));
    UOPD_ASSIGN(const ir::UOp n, IndexOf(x, s));
    to.push_back(n);
  }
  return to;
}

}  // namespace

Tensor Reshape(const Tensor& x, std::span<const Size> sizes, Site site) {
  if (auto error = FirstError("Reshape", {&x}, site)) return *error;
  std::vector<Size> known(sizes.begin(), sizes.end());
  size_t hole = known.size();
  for (size_t i = 0; i < known.size() && hole == known.size(); ++i) {
    if (known[i].tensor() != nullptr || known[i].number() != -1) continue;
    hole = i;
    known[i] = 1;
  }
  auto to = DimsOf(x, known, false);
  if (!to.ok()) return Poisoned(x.state()->graph, Located("Reshape", site, to.status()));
  if (hole < known.size()) {
    // The size that is -1: the product of x's sizes, divided by the other sizes. Equal symbolic
    // sizes cancel, and numbers divide.
    ir::UOpContext& ctx = Ctx(x);
    ir::SymbolicDims all = SizesOf(x);
    ir::UOp count = ctx.Idx(1), by = ctx.Idx(1);
    for (const ir::UOp d : *to) {
      const auto same = std::ranges::find(all, d);
      if (same != all.end() && !d.Is(ir::Op::CONST))
        *same = ctx.Idx(1);
      else
        by = ProductOf(ctx, by, d);
    }
    for (const ir::UOp d : all) count = ProductOf(ctx, count, d);
    const ir::UOp rest = by.IsConstInt(0) ? ir::UOp() : MaybeQuotient(ctx, count, by);
    if (!rest) return Wrong(x, "Reshape", site, Cat("no size for -1 fits shape ", ShapeText(x)));
    (*to)[hole] = ir::CanonicalSize(ctx, rest);
  }
  return ReshapeTo(x, *to, "Reshape", site);
}

Tensor Expand(const Tensor& x, std::span<const Size> sizes, Site site) {
  if (auto error = FirstError("Expand", {&x}, site)) return *error;
  const auto to = DimsOf(x, sizes, true);
  if (!to.ok()) return Poisoned(x.state()->graph, Located("Expand", site, to.status()));
  ir::UOpContext& ctx = Ctx(x);
  return Made(x, ir::Expand(ctx, Value(x), ir::ShapeArg(ctx, ir::Shape(*to))), "Expand", site);
}

}  // namespace uopd::client::fn
