// SPDX-License-Identifier: MIT
// Movement operations. Shapes are computed here; the verifier of the IR decides what is valid.
#include <algorithm>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "uopd/indexing.h"

namespace uopd::client {

using ir::Op;

Tensor ReshapeTo(const Tensor& t, const ir::SymbolicDims& dims, std::string_view what, Site site) {
  if (!t.status().ok()) return t;
  if (ir::SameShape(dims, ShapeOf(t))) return Same(t);
  ir::UOpContext& ctx = Ctx(t);
  return Made(t, ir::Reshape(ctx, Value(t), ir::ShapeArg(ctx, ir::Shape(dims))), what, site);
}

std::optional<Tensor> Symbolic(const Tensor& t, std::string_view what, Site site) {
  if (!t.is_symbolic()) return std::nullopt;
  return Wrong(t, what, site, "a dimension is symbolic");
}

Tensor Tensor::Reshape(Dims to, Site site) const {
  if (!status().ok()) return *this;
  if (is_symbolic()) {
    const std::vector<Size> sizes(to.begin(), to.end());
    return fn::Reshape(*this, sizes, site);
  }
  const auto hole = std::find(to.begin(), to.end(), -1);
  if (hole != to.end()) {
    int64_t rest = 1;
    for (auto it = to.begin(); it != to.end(); ++it) rest *= it == hole ? 1 : *it;
    if (rest <= 0 || size() % rest != 0) {
      return Wrong(*this, "Reshape", site,
                   Cat("no size for -1 makes ", Text(dims()), " into ", Text(to)));
    }
    *hole = size() / rest;
  }
  for (int64_t d : to) {
    if (d < 0)
      return Wrong(*this, "Reshape", site, Cat("a dimension of ", Text(to), " is negative"));
  }
  if (to == dims()) return Same(*this);
  return Made(*this, ir::Reshape(Ctx(*this), Value(*this), to), "Reshape", site);
}

Tensor Tensor::Flatten(int64_t from_axis, Site site) const {
  if (!status().ok()) return *this;
  if (rank() == 0) return Reshape({1}, site);
  const auto a = Axis(from_axis, rank());
  if (!a) return Wrong(*this, "Flatten", site, Cat("axis ", from_axis, " of shape ", Text(dims())));
  ir::SymbolicDims to = SizesOf(*this);
  ir::UOp joined = Ctx(*this).Idx(1);
  for (; static_cast<int64_t>(to.size()) > *a; to.pop_back())
    joined = ProductOf(Ctx(*this), to.back(), joined);
  to.push_back(joined);
  return ReshapeTo(*this, to, "Flatten", site);
}

Tensor Tensor::Expand(Dims to, Site site) const {
  if (!status().ok()) return *this;
  const size_t extra = to.size() < dims().size() ? 0 : to.size() - dims().size();
  ir::UOpContext& ctx = Ctx(*this);
  const ir::Shape shape = ShapeOf(*this);
  ir::SymbolicDims whole;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool keeps = to[i] == -1 && i >= extra;
    if (to[i] < 0 && !keeps)
      return Wrong(*this, "Expand", site, Cat("a dimension of ", Text(to), " is negative"));
    whole.push_back(keeps ? shape[i - extra] : ctx.Idx(to[i]));
  }
  if (ir::SameShape(whole, shape)) return Snapshot();
  const ir::UOp arg = ir::ShapeArg(ctx, ir::Shape(whole));
  return Made(*this, ir::Expand(ctx, Value(*this), arg), "Expand", site);
}

Tensor Tensor::Permute(Dims order, Site site) const {
  if (!status().ok()) return *this;
  bool same = order.size() == dims().size();
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0) order[i] += rank();
    same &= order[i] == static_cast<int64_t>(i);
  }
  return same ? Same(*this)
              : Made(*this, ir::Permute(Ctx(*this), Value(*this), order), "Permute", site);
}

Tensor Tensor::Transpose(int64_t a, int64_t b, Site site) const {
  if (!status().ok()) return *this;
  const auto x = Axis(a, rank()), y = Axis(b, rank());
  if (!x || !y)
    return Wrong(*this, "Transpose", site, Cat("axes ", a, " and ", b, " of shape ", Text(dims())));
  Dims order(dims().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[static_cast<size_t>(*x)], order[static_cast<size_t>(*y)]);
  return Permute(order, site);
}

Tensor Tensor::Pad(Dims before, Dims after, double value, Site site) const {
  if (!status().ok()) return *this;
  if (before.size() != dims().size() || after.size() != dims().size()) {
    return Wrong(*this, "Pad", site,
                 Cat("padding for ", before.size(), " axes of shape ", Text(dims())));
  }
  ir::UOpContext& ctx = Ctx(*this);
  ir::SymbolicDims from(ShapeOf(*this).begin(), ShapeOf(*this).end()), to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (before[i] < 0 || after[i] < 0) return Wrong(*this, "Pad", site, "padding is negative");
    to.push_back(SumOf(ctx, from[i], ctx.Idx(before[i] + after[i])));
  }
  if (to == from) return Another(*this);
  const ir::UOp start = ir::ShapeArg(ctx, before), shape = ir::ShapeArg(ctx, ir::Shape(to));
  Tensor padded = Made(*this, ir::Pad(ctx, Value(*this), start, shape), "Pad", site);
  if (value == 0 || !padded.status().ok()) return padded;
  if (const absl::Status fits = CheckNumber(dtype(), value); !fits.ok())
    return Poisoned(state_->graph, Located("Pad", site, fits));
  // A mask that is false where the padding is: true, padded with false.
  const ir::UOp ones = ir::Expand(ctx, ctx.Bool(true), ir::ShapeArg(ctx, ir::Shape(from)));
  const Tensor inside = Made(*this, ir::Pad(ctx, ones, start, shape), "Pad", site);
  return Where(inside, padded, ScalarLike(*this, dtype(), value));
}

Tensor Tensor::Shrink(Dims begin, Dims end, Site site) const {
  if (!status().ok()) return *this;
  if (begin.size() != dims().size() || end.size() != dims().size()) {
    return Wrong(*this, "Shrink", site,
                 Cat("a box of ", begin.size(), " axes in shape ", Text(dims())));
  }
  // An end at the largest size of a symbolic axis means the end of the axis: the axis keeps its
  // symbolic size.
  ir::SymbolicDims to = SizesOf(*this);
  for (size_t i = 0; i < dims().size(); ++i) {
    if (begin[i] < 0 || end[i] < begin[i] || end[i] > dims()[i]) {
      return Wrong(*this, "Shrink", site,
                   Cat("[", begin[i], ", ", end[i], ") on axis ", i, " of shape ", Text(dims())));
    }
    if (begin[i] > 0 || end[i] < dims()[i]) to[i] = Ctx(*this).Idx(end[i] - begin[i]);
  }
  if (ir::SameShape(to, ShapeOf(*this))) return Same(*this);
  ir::UOpContext& ctx = Ctx(*this);
  return Made(
      *this,
      ir::Shrink(ctx, Value(*this), ir::ShapeArg(ctx, begin), ir::ShapeArg(ctx, ir::Shape(to))),
      "Shrink", site);
}

Tensor Tensor::Flip(Dims axes, Site site) const {
  if (!status().ok()) return *this;
  if (rank() == 0 && axes.size() == 1 && (axes[0] == 0 || axes[0] == -1)) return Same(*this);
  for (int64_t& a : axes) {
    const auto axis = Axis(a, rank());
    if (!axis) return Wrong(*this, "Flip", site, Cat("axis ", a, " of shape ", Text(dims())));
    a = *axis;
  }
  std::sort(axes.begin(), axes.end());
  if (axes.empty()) return Same(*this);
  return Made(*this, ir::Flip(Ctx(*this), Value(*this), axes), "Flip", site);
}

Tensor Tensor::Slice(std::vector<Range> ranges, Site site) const {
  if (!status().ok()) return *this;
  if (ranges.size() > dims().size()) {
    return Wrong(*this, "Slice", site, Cat(ranges.size(), " ranges for shape ", Text(dims())));
  }
  Dims begin(dims().size(), 0), end = dims(), flips, steps(dims().size(), 1);
  if (is_symbolic()) {  // its symbolic axes are cut first, and are whole for what follows
    Tensor cut = *this;
    for (size_t i = 0; i < ranges.size(); ++i) {
      Range& r = ranges[i];
      if (ShapeOf(*this)[i].Is(Op::CONST)) continue;
      if (r.step != 1 && !(r.step == -1 && !r.begin && !r.end))
        return Wrong(*this, "Slice", site, Cat("a step of ", r.step, " along a symbolic axis"));
      const auto size = [](std::optional<int64_t> at) {
        return at ? std::optional<Size>(*at) : std::nullopt;
      };
      cut = SliceOf(cut, static_cast<int64_t>(i), size(r.begin), size(r.end), site);
      if (!cut.status().ok()) return cut;
      r.begin = r.end = std::nullopt;
    }
    if (cut.state()->uop != state_->uop) return cut.Slice(std::move(ranges), site);
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Range& r = ranges[i];
    const int64_t n = dims()[i];
    if (r.step == 0 || r.step == INT64_MIN)
      return Wrong(*this, "Slice", site, Cat("step of axis ", i, " is ", r.step));
    const bool back = r.step < 0;
    // The same as Python's slice.indices.
    auto clamp = [&](std::optional<int64_t> v, int64_t none) {
      if (!v) return none;
      const int64_t at = *v < 0 ? *v + n : *v;
      return std::clamp<int64_t>(at, back ? -1 : 0, back ? n - 1 : n);
    };
    const int64_t from = clamp(r.begin, back ? n - 1 : 0), to = clamp(r.end, back ? -1 : n);
    steps[i] = back ? -r.step : r.step;
    if (back) {
      begin[i] = to + 1;
      end[i] = std::max(from + 1, to + 1);
      flips.push_back(static_cast<int64_t>(i));
    } else {
      begin[i] = from;
      end[i] = std::max(from, to);
    }
  }
  Tensor out = Shrink(begin, end, site).Flip(flips, site);
  // Every step-th element: the axis is divided into groups of `step` elements, and the first
  // element of each group is kept.
  for (size_t i = 0; i < steps.size() && out.status().ok(); ++i) {
    const int64_t n = out.dims()[i], step = std::min(steps[i], std::max<int64_t>(n, 1));
    if (step == 1) continue;
    const int64_t groups = (n + step - 1) / step;
    ir::UOpContext& ctx = Ctx(out);
    Dims none(out.dims().size(), 0), after = none;
    after[i] = groups * step - n;
    ir::SymbolicDims joined = SizesOf(out);  // other axes may be symbolic
    joined[i] = ctx.Idx(groups);
    ir::SymbolicDims split = joined;
    split.insert(split.begin() + static_cast<int64_t>(i) + 1, ctx.Idx(step));
    ir::SymbolicDims first = split;
    first[i + 1] = ctx.Idx(1);
    const ir::SymbolicDims start(split.size(), ctx.Idx(0));
    const auto arg = [&](const ir::SymbolicDims& dims) {
      return ir::ShapeArg(ctx, ir::Shape(dims));
    };
    // Shrink leaves the padding out again, so the result is a view although Pad makes none.
    Tensor padded = out;
    if (after[i] > 0) padded = out.Pad(none, after, 0, site);
    if (after[i] > 0 && padded.status().ok())
      BeginView(*padded.state(), *out.state(), padded.state()->uop);
    if (!padded.status().ok()) return padded;
    const Tensor grouped = Made(padded, ir::Reshape(ctx, Value(padded), arg(split)), "Slice", site);
    const Tensor chosen =
        Made(grouped, ir::Shrink(ctx, Value(grouped), arg(start), arg(first)), "Slice", site);
    out = Made(chosen, ir::Reshape(ctx, Value(chosen), arg(joined)), "Slice", site);
  }
  return out;
}

Tensor Tensor::Select(int64_t axis, int64_t index, Site site) const {
  if (!status().ok()) return *this;
  const auto a = Axis(axis, rank());
  const bool fixed = !a || ShapeOf(*this)[static_cast<size_t>(*a)].Is(Op::CONST);
  if (!fixed) {
    ir::UOpContext& ctx = Ctx(*this);
    ir::SymbolicDims starts(dims().size(), ctx.Idx(0)), one = SizesOf(*this);
    const auto at = static_cast<size_t>(*a);
    starts[at] = index < 0 ? SumOf(ctx, one[at], ctx.Idx(index)) : ctx.Idx(index);
    one[at] = ctx.Idx(1);
    const ir::UOp from = ir::ShapeArg(ctx, ir::Shape(starts)),
                  to = ir::ShapeArg(ctx, ir::Shape(one));
    return Made(*this, ir::Shrink(ctx, Value(*this), from, to), "Select", site).Squeeze(*a, site);
  }
  const auto i = a ? Axis(index, dims()[static_cast<size_t>(*a)]) : std::nullopt;
  if (!i)
    return Wrong(*this, "Select", site,
                 Cat("index ", index, " on axis ", axis, " of shape ", Text(dims())));
  return Narrow(*a, *i, 1, site).Squeeze(*a, site);
}

Tensor Tensor::Squeeze(int64_t axis, Site site) const {
  if (!status().ok()) return *this;
  const auto a = Axis(axis, rank());
  if (!a || !ShapeOf(*this)[static_cast<size_t>(*a)].IsConstInt(1)) {
    return Wrong(*this, "Squeeze", site,
                 Cat("axis ", axis, " of shape ", Text(dims()), " does not have size 1"));
  }
  const ir::Shape shape = ShapeOf(*this);
  ir::SymbolicDims to(shape.begin(), shape.end());
  to.erase(to.begin() + *a);
  return ReshapeTo(*this, to, "Squeeze", site);
}

Tensor Tensor::Unsqueeze(int64_t axis, Site site) const {
  if (!status().ok()) return *this;
  const auto a = Axis(axis, rank() + 1);
  if (!a) return Wrong(*this, "Unsqueeze", site, Cat("axis ", axis, " for shape ", Text(dims())));
  const ir::Shape shape = ShapeOf(*this);
  ir::SymbolicDims to(shape.begin(), shape.end());
  to.insert(to.begin() + *a, Ctx(*this).Idx(1));
  return ReshapeTo(*this, to, "Unsqueeze", site);
}

Tensor Concat(std::span<const Tensor> parts, int64_t axis, Site site) {
  if (parts.empty())
    return Poisoned(nullptr,
                    Located("Concat", site, absl::InvalidArgumentError("there are no parts")));
  Dtype dtype = Dtype::Void;
  for (const Tensor& t : parts) {
    if (!t.status().ok())
      return t.state() != nullptr ? t : Poisoned(nullptr, Located("Concat", site, t.status()));
    if (t.state()->graph != parts[0].state()->graph)
      return Wrong(t, "Concat", site, "parts belong to different clients");
    dtype = dtype == Dtype::Void ? t.dtype() : ir::Promote(dtype, t.dtype());
  }
  const auto a = Axis(axis, parts[0].rank());
  if (!a)
    return Wrong(parts[0], "Concat", site, Cat("axis ", axis, " of shape ", Text(parts[0].dims())));
  const auto i = static_cast<size_t>(*a);
  ir::UOpContext& ctx = Ctx(parts[0]);
  ir::SymbolicDims whole(ShapeOf(parts[0]).begin(), ShapeOf(parts[0]).end());
  whole[i] = ctx.Idx(0);
  for (const Tensor& t : parts) {
    ir::SymbolicDims rest(ShapeOf(t).begin(), ShapeOf(t).end());
    if (rest.size() == whole.size()) {
      whole[i] = SumOf(ctx, whole[i], rest[i]);
      rest[i] = whole[i];
    }
    if (rest != whole)
      return Wrong(
          t, "Concat", site,
          Cat("shapes ", Text(parts[0].dims()), " and ", Text(t.dims()), " along axis ", axis));
  }
  // The parts are padded and chosen by position. Adding them would turn -0 into 0.
  ir::SymbolicDims column(whole.size(), ctx.Idx(1));
  column[i] = whole[i];
  const ir::UOp shape = ir::ShapeArg(ctx, ir::Shape(whole));
  const ir::UOp position = ir::Iota(ctx, Dtype::I64, ir::ShapeArg(ctx, ir::Shape(column)), *a);
  // Each part in the shape of the whole, and where it begins.
  std::vector<std::pair<ir::UOp, ir::UOp>> placed;
  ir::SymbolicDims at(whole.size(), ctx.Idx(0));
  for (const Tensor& t : parts) {
    if (t.dims()[i] == 0 && parts.size() > 1) continue;
    const Tensor part = t.Cast(dtype, site);
    const bool alone = ir::SameShape(ShapeOf(t), whole);
    const ir::UOp place = ir::ShapeArg(ctx, ir::Shape(at));
    placed.emplace_back(alone ? Value(part) : ir::Pad(ctx, Value(part), place, shape), at[i]);
    at[i] = SumOf(ctx, at[i], ShapeOf(t)[i]);
  }
  if (placed.empty()) return parts[0].Cast(dtype, site);
  // Neighbours are joined, then neighbours of these: many parts make a tree, not a chain.
  while (placed.size() > 1) {
    size_t n = 0;
    for (size_t k = 0; k < placed.size(); k += 2, ++n) {
      if (k + 1 < placed.size()) {
        const ir::UOp earlier =
            ir::Lt(ctx, position, ir::Cast(ctx, placed[k + 1].second, Dtype::I64));
        placed[k].first = ir::Where(ctx, earlier, placed[k].first, placed[k + 1].first);
      }
      placed[n] = placed[k];
    }
    placed.resize(n);
  }
  return Made(parts[0], placed[0].first, "Concat", site);
}

Tensor Stack(std::span<const Tensor> parts, int64_t axis, Site site) {
  if (parts.empty())
    return Poisoned(nullptr,
                    Located("Stack", site, absl::InvalidArgumentError("there are no parts")));
  Dtype dtype = Dtype::Void;
  for (const Tensor& t : parts) {
    if (!t.status().ok())
      return t.state() != nullptr ? t : Poisoned(nullptr, Located("Stack", site, t.status()));
    if (t.state()->graph != parts[0].state()->graph)
      return Wrong(t, "Stack", site, "parts belong to different clients");
    dtype = dtype == Dtype::Void ? t.dtype() : ir::Promote(dtype, t.dtype());
  }
  const auto a = Axis(axis, parts[0].rank() + 1);
  if (!a)
    return Wrong(parts[0], "Stack", site, Cat("axis ", axis, " for shape ", Text(parts[0].dims())));
  ir::SymbolicDims values;
  for (const Tensor& t : parts) values.push_back(ir::Cast(Ctx(t), Value(t), dtype));
  Tensor first = Made(parts[0], Ctx(parts[0]).Make(Op::STACK, dtype, values), "Stack", site);
  if (!first.status().ok() || *a == 0) return first;
  Dims order;
  for (int64_t k = 1; k < first.rank(); ++k) order.push_back(k);
  order.insert(order.begin() + *a, 0);
  return first.Permute(order, site);
}

}  // namespace uopd::client
