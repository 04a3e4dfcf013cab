// SPDX-License-Identifier: MIT
// The functions of movement.h but padding: movement operations of Tensor, put together.
#include <algorithm>
#include <numeric>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/movement.h"

namespace uopd::client::fn {

Tensor Roll(const Tensor& x, const Dims& shifts, const Dims& axes, Site site) {
  return Roll(x, std::vector<Size>(shifts.begin(), shifts.end()), axes, site);
}

Tensor Roll(const Tensor& x, std::span<const Size> shifts, const Dims& axes, Site site) {
  if (auto error = FirstError("Roll", {&x}, site)) return *error;
  if (axes.size() == 1) {
    if (auto only = AlongNoAxis(x, axes[0], site,
                                [&](const Tensor& t) { return Roll(t, shifts, {0}, site); }))
      return *only;
  }
  if (axes.empty() && shifts.size() == 1)
    return ReshapeTo(Roll(x.Flatten(0, site), shifts, {0}, site), SizesOf(x), "Roll", site);
  if (axes.size() != shifts.size())
    return Wrong(x, "Roll", site, Cat(shifts.size(), " shifts along axes ", Text(axes)));
  Tensor out = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = Axis(axes[i], x.rank());
    if (!a) return Wrong(x, "Roll", site, Cat("axis ", axes[i], " of shape ", Text(x.dims())));
    const ir::UOp size = ShapeOf(x)[static_cast<size_t>(*a)];
    if (!size.Is(ir::Op::CONST) || shifts[i].tensor() != nullptr) {
      const auto shift = IndexOf(out, shifts[i]);
      if (!shift.ok()) return Poisoned(x.state()->graph, Located("Roll", site, shift.status()));
      const Tensor length = out.Length(*a, site);
      const Tensor by = SizeTensor(out, *shift) % length, at = length - by;
      const Tensor moved[] = {out.Narrow(*a, at, by, site), out.Narrow(*a, 0, at, site)};
      out = Concat(moved, *a, site);
      continue;
    }
    const int64_t n = x.dims()[static_cast<size_t>(*a)];
    const int64_t by = n == 0 ? 0 : ((shifts[i].number() % n) + n) % n;
    if (by == 0) continue;
    const Tensor parts[] = {out.Narrow(*a, n - by, by, site), out.Narrow(*a, 0, n - by, site)};
    out = Concat(parts, *a, site);
  }
  return out.state() == x.state() ? Another(x) : out;
}

Tensor Slice(const Tensor& x, int64_t axis, std::optional<Size> begin, std::optional<Size> end,
             Site site) {
  if (auto error = FirstError("Slice", {&x}, site)) return *error;
  return SliceOf(x, axis, begin, end, site);
}

Tensor RepeatInterleave(const Tensor& x, int64_t times, std::optional<int64_t> axis, Site site) {
  if (auto error = FirstError("RepeatInterleave", {&x}, site)) return *error;
  const Tensor t = axis && x.rank() > 0 ? x : x.Flatten(0, site);
  const auto a = Axis(axis.value_or(0), t.rank());
  if (!a || times < 0) {
    return Wrong(x, "RepeatInterleave", site,
                 Cat(times, " times along axis ", axis.value_or(0), " of shape ", Text(t.dims())));
  }
  ir::UOpContext& ctx = Ctx(t);
  ir::SymbolicDims each = SizesOf(t), joined = SizesOf(t);
  each.insert(each.begin() + *a + 1, ctx.Idx(times));
  ir::UOp& longer = joined[static_cast<size_t>(*a)];
  longer = ProductOf(ctx, longer, ctx.Idx(times));
  Tensor one = t.Unsqueeze(*a + 1, site);
  if (!one.status().ok()) return one;
  const ir::UOp shape = ir::ShapeArg(ctx, ir::Shape(each));
  const Tensor all = Made(one, ir::Expand(ctx, Value(one), shape), "RepeatInterleave", site);
  return all.status().ok() ? ReshapeTo(all, joined, "RepeatInterleave", site) : all;
}

Tensor Tile(const Tensor& x, Dims times, Site site) {
  if (auto error = FirstError("Tile", {&x}, site)) return *error;
  if (times.size() < x.dims().size())
    times.insert(times.begin(), x.dims().size() - times.size(), 1);
  return x.Repeat(times, site);
}

Tensor Diagonal(const Tensor& x, int64_t offset, int64_t axis1, int64_t axis2, Site site) {
  if (auto error = FirstError("Diagonal", {&x}, site)) return *error;
  const auto a = Axis(axis1, x.rank()), b = Axis(axis2, x.rank());
  if (!a || !b || *a == *b) {
    return Wrong(x, "Diagonal", site,
                 Cat("axes ", axis1, " and ", axis2, " of shape ", Text(x.dims())));
  }
  const Tensor t = MoveAxis(x, {*a, *b}, {-2, -1}, site);
  if (x.is_symbolic()) {
    // In the box the diagonal is longer at its end.
    ir::UOpContext& ctx = Ctx(t);
    ir::SymbolicDims to = SizesOf(t);
    auto left = [&](ir::UOp n, int64_t skipped) {
      return DifferenceOf(ctx, n, ctx.Idx(std::max<int64_t>(skipped, 0)));
    };
    const ir::UOp columns = left(to.back(), offset), rows = left(to[to.size() - 2], -offset);
    to.pop_back();
    to.back() = LargerOf(ctx, SmallerOf(ctx, rows, columns), ctx.Idx(0));
    return Cornered(Diagonal(Boxed(t, site), offset, -2, -1, site), to, site);
  }
  const int64_t rows = t.dims()[t.dims().size() - 2], columns = t.dims().back();
  // Elements of one diagonal are columns + 1 apart.
  const int64_t row = std::clamp<int64_t>(-offset, 0, rows),
                column = std::clamp<int64_t>(offset, 0, columns);
  const int64_t length = std::min(rows - row, columns - column);
  Dims flat(t.dims().begin(), t.dims().end() - 2);
  flat.push_back(rows * columns);
  std::vector<Range> ranges(flat.size());
  const int64_t begin = length == 0 ? 0 : row * columns + column;
  ranges.back() = {begin, length == 0 ? 0 : begin + (length - 1) * (columns + 1) + 1, columns + 1};
  return t.Reshape(flat, site).Slice(ranges, site);
}

Tensor DiagEmbed(const Tensor& x, int64_t offset, Site site) {
  if (auto error = FirstError("DiagEmbed", {&x}, site)) return *error;
  if (x.rank() == 0) return Wrong(x, "DiagEmbed", site, "the tensor is a scalar");
  if (std::abs(offset) > INT32_MAX) return Wrong(x, "DiagEmbed", site, Cat("offset ", offset));
  Dims none(x.dims().size(), 0), more = none;
  more.back() = std::abs(offset);
  // Element k is in row k (offset >= 0) or in column k.
  Tensor wide = Pad(x, none, more, PadMode::kConstant, 0, site);
  if (!wide.status().ok()) return wide;
  const ir::UOp n = ShapeOf(wide).back();
  const Tensor row = IotaOf(x, n, Dtype::I64).Unsqueeze(-1, site),
               column = IotaOf(x, n, Dtype::I64);
  return Where({column - row == offset, site}, wide.Unsqueeze(offset < 0 ? -2 : -1, site),
               Like(x, 0));
}

Tensor Diag(const Tensor& x, int64_t offset, Site site) {
  if (auto error = FirstError("Diag", {&x}, site)) return *error;
  if (x.rank() == 1) return DiagEmbed(x, offset, site);
  if (x.rank() == 2) return Diagonal(x, offset, 0, 1, site);
  return Wrong(x, "Diag", site, Cat("shape ", Text(x.dims()), " is no vector and no matrix"));
}

std::vector<Tensor> MeshGrid(std::span<const Tensor> vectors, bool xy, Site site) {
  ir::SymbolicDims whole;
  for (const Tensor& v : vectors) {
    if (auto error = FirstError("MeshGrid", {&vectors[0], &v}, site))
      return std::vector<Tensor>(vectors.size(), *error);
    if (v.rank() > 1) {
      return std::vector<Tensor>(
          vectors.size(),
          Wrong(v, "MeshGrid", site, Cat("shape ", Text(v.dims()), " is no vector")));
    }
    whole.push_back(v.rank() == 0 ? Ctx(v).Idx(1) : ShapeOf(v)[0]);
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < vectors.size(); ++i) {
    ir::SymbolicDims column(whole.size(), Ctx(vectors[i]).Idx(1));
    column[i] = whole[i];
    const Tensor grid =
        ExpandTo(ReshapeTo(vectors[i], column, "MeshGrid", site), whole, "MeshGrid", site);
    out.push_back(xy && whole.size() > 1 ? grid.Transpose(0, 1, site) : grid);
  }
  return out;
}

Tensor Unflatten(const Tensor& x, int64_t axis, const Dims& sizes, Site site) {
  if (auto error = FirstError("Unflatten", {&x}, site)) return *error;
  const auto a = Axis(axis, x.rank());
  if (!a || std::count(sizes.begin(), sizes.end(), -1) > 1) {
    return Wrong(x, "Unflatten", site,
                 Cat("axis ", axis, " of shape ", Text(x.dims()), " into ", Text(sizes)));
  }
  if (!ShapeOf(x)[static_cast<size_t>(*a)].Is(ir::Op::CONST))
    return Wrong(x, "Unflatten", site, Cat("axis ", axis, " is symbolic: use Reshape"));
  // The -1 is resolved against the axis alone, because other axes may be empty.
  int64_t rest = 1;
  for (int64_t d : sizes) rest *= d == -1 ? 1 : d;
  Dims parts = sizes;
  const int64_t n = x.dims()[static_cast<size_t>(*a)];
  for (int64_t& d : parts) {
    if (d == -1) d = rest > 0 && n % rest == 0 ? n / rest : -2;
  }
  if (ir::Product(parts) != n ||
      std::any_of(parts.begin(), parts.end(), [](int64_t d) { return d < 0; })) {
    return Wrong(x, "Unflatten", site,
                 Cat("axis ", axis, " of shape ", Text(x.dims()), " into ", Text(sizes)));
  }
  ir::SymbolicDims to = SizesOf(x);
  to.erase(to.begin() + *a);
  for (size_t i = 0; i < parts.size(); ++i)
    to.insert(to.begin() + *a + static_cast<int64_t>(i), Ctx(x).Idx(parts[i]));
  return ReshapeTo(x, to, "Unflatten", site);
}

Tensor FlattenAxes(const Tensor& x, int64_t first, int64_t last, Site site) {
  if (auto error = FirstError("FlattenAxes", {&x}, site)) return *error;
  if (x.rank() == 0) return x.Reshape({1}, site);
  const auto a = Axis(first, x.rank()), b = Axis(last, x.rank());
  if (!a || !b || *a > *b) {
    return Wrong(x, "FlattenAxes", site,
                 Cat("axes ", first, " to ", last, " of shape ", Text(x.dims())));
  }
  ir::SymbolicDims to = SizesOf(x);
  for (int64_t i = *b; i > *a; --i) {
    const auto at = static_cast<size_t>(i);
    to[at - 1] = ProductOf(Ctx(x), to[at - 1], to[at]);
    to.erase(to.begin() + i);
  }
  if (ir::SameShape(to, ShapeOf(x))) return Same(x);
  return ReshapeTo(x, to, "FlattenAxes", site);
}

Tensor MoveAxis(const Tensor& x, const Dims& from, const Dims& to, Site site) {
  if (auto error = FirstError("MoveAxis", {&x}, site)) return *error;
  auto wrong = [&] {
    return Wrong(x, "MoveAxis", site,
                 Cat("axes ", Text(from), " to ", Text(to), " of shape ", Text(x.dims())));
  };
  if (from.size() != to.size()) return wrong();
  Dims order(x.dims().size(), -1);
  std::vector<bool> moved(x.dims().size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto a = Axis(from[i], x.rank()), b = Axis(to[i], x.rank());
    if (!a || !b || moved[static_cast<size_t>(*a)] || order[static_cast<size_t>(*b)] != -1)
      return wrong();
    moved[static_cast<size_t>(*a)] = true;
    order[static_cast<size_t>(*b)] = *a;
  }
  int64_t next = 0;
  for (int64_t& at : order) {
    if (at != -1) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    at = next++;
  }
  return x.Permute(order, site);
}

Tensor Unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step, Site site) {
  if (auto error = FirstError("Unfold", {&x}, site)) return *error;
  const auto a = Axis(axis, x.rank());
  if (!a || size < 0 || step < 1 || size > x.dims()[static_cast<size_t>(*a)]) {
    return Wrong(x, "Unfold", site,
                 Cat("windows of ", size, " every ", step, " elements along axis ", axis,
                     " of shape ", Text(x.dims())));
  }
  if (size == 0) {
    Dims empty = x.dims();
    empty[static_cast<size_t>(*a)] = empty[static_cast<size_t>(*a)] / step + 1;
    empty.push_back(0);
    return x.Narrow(*a, 0, 0, site).Reshape(empty, site);
  }
  const Tensor windows = MoveAxis(x, {*a}, {-1}, site).Windows({size}, {step}, {1}, site);
  return MoveAxis(windows, {-2}, {*a}, site);
}

Tensor FullLike(const Tensor& x, Operand value, std::optional<Dtype> dtype, Site site) {
  if (auto error = FirstError("FullLike", {&x}, site)) return *error;
  const Dtype d = dtype.value_or(x.dtype());
  if (value.tensor() != nullptr) {
    const Tensor number = value.tensor()->Cast(d, site);
    if (auto error = FirstError("FullLike", {&x, &number}, site)) return *error;
    if (number.rank() != 0)
      return Wrong(x, "FullLike", site, Cat("the value has shape ", Text(number.dims())));
    const ir::UOp sizes = ir::ShapeArg(Ctx(x), ShapeOf(x));
    return Made(x, ir::Expand(Ctx(x), Value(number), sizes), "FullLike", site).ToLayoutOf(x, site);
  }
  if (const absl::Status fits = CheckNumber(d, value); !fits.ok())
    return Poisoned(x.state()->graph, Located("FullLike", site, fits));
  const ir::UOp shape = ir::ShapeArg(Ctx(x), ShapeOf(x));
  return Made(x, ir::Expand(Ctx(x), NumberOf(Ctx(x), d, value), shape), "FullLike", site)
      .ToLayoutOf(x, site);
}

Tensor Linspace(Client& client, double begin, double end, int64_t count, Dtype dtype, Site site) {
  Tensor i = client.Arange(0, std::max<int64_t>(count, 0), 1, Dtype::F64, site);
  if (!i.status().ok()) return i;
  if (count < 0) return Wrong(i, "Linspace", site, Cat("a count of ", count));
  if (dtype == Dtype::Bool) return Wrong(i, "Linspace", site, "of bools");
  if (count == 1) return client.Full({1}, begin, dtype, site);
  // Each half is counted from its own end, so that both ends are exact.
  const double step = count == 0 ? 0 : (end - begin) / static_cast<double>(count - 1);
  const auto last = static_cast<double>(count - 1);
  return Where({i < last / 2, site}, i * step + begin, end - (last - i) * step).Cast(dtype, site);
}

Tensor Linspace(Client& client, double begin, double end, const Size& count, Dtype dtype,
                Site site) {
  if (count.tensor() == nullptr) return Linspace(client, begin, end, count.number(), dtype, site);
  Tensor i = client.ArangeOf(0, count, 1, Dtype::F64, site);
  if (!i.status().ok()) return i;
  if (dtype == Dtype::Bool) return Wrong(i, "Linspace", site, "of bools");
  const Tensor last = count.tensor()->Cast(Dtype::F64, site) - 1;
  const Tensor step = (end - begin) / last.Maximum(1);
  const Tensor first_half = (i < last / 2) | (last == 0);
  return Where({first_half, site}, i * step + begin, end - (last - i) * step).Cast(dtype, site);
}

}  // namespace uopd::client::fn
