// SPDX-License-Identifier: MIT
// Writing by tensors of positions along an axis. For every element of the result, all indices along
// the axis are compared with its position: a comparison for each pair, which no memory is needed
// for.
#include <limits>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/index/pick.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/indexing.h"

namespace uopd::client::fn {
namespace {

struct Pairs {
  std::optional<Tensor> error;
  int64_t axis = 0;
  Tensor src;     // cut to the shape of the index
  Tensor hit;     // [..., n of x along the axis, ..., m of the index]
  Tensor values;  // src against hit
};

Pairs PairsOf(std::string_view what, const Tensor& x, int64_t axis, const Tensor& index,
              const Tensor& src, Site site) {
  Pairs out;
  if ((out.error = Refused(what, {&x, &index, &src}, site))) return out;
  const auto a = Axis(axis, x.rank());
  bool fits = a && index.rank() == x.rank() && src.rank() == x.rank() && ir::IsInt(index.dtype());
  for (size_t i = 0; fits && i < x.dims().size(); ++i) {
    fits = index.dims()[i] <= src.dims()[i] &&
           (static_cast<int64_t>(i) == *a || index.dims()[i] <= x.dims()[i]);
  }
  if (!fits) {
    out.error = Wrong(x, what, site,
                      Cat("an index of ", ir::Name(index.dtype()), " ", Text(index.dims()),
                          " and values of shape ", Text(src.dims()), " along axis ", axis,
                          " of shape ", Text(x.dims())));
    return out;
  }
  out.axis = *a;
  out.src = src.Shrink(Dims(src.dims().size(), 0), index.dims(), site);
  auto last = [&](const Tensor& t) { return t.Unsqueeze(-1, site).Transpose(*a, -1, site); };
  const int64_t n = x.dims()[static_cast<size_t>(*a)];
  const Tensor at = last(index.Cast(Dtype::I64, site));
  out.hit = Where(at < 0, at + n, at) == IotaAlong(x, *a, Dtype::I64).Unsqueeze(-1, site);
  out.values = last(out.src);
  return out;
}

// The operands of a scatter with symbolic sizes, in boxes of the largest sizes. An index beyond the
// sizes of now hits nothing.
struct Box {
  Tensor x, index, src;

  Box(const Tensor& t, int64_t axis, const Tensor& at, const Tensor& values, Site site)
      : x(Boxed(t, site)) {
    const Tensor none = NumberLike(t, Dtype::I64, t.dims()[static_cast<size_t>(axis)]);
    index = Boxed(FromStart(at, t, axis, site), site, &none);
    src = Boxed(Cornered(values, SizesOf(at), site), site);
  }
};

// Whether a scatter of these operands works in a box. False also for operands that the scatter is
// going to refuse.
bool NeedsBox(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src) {
  return (x.is_symbolic() || index.is_symbolic() || src.is_symbolic()) && Axis(axis, x.rank()) &&
         index.rank() == x.rank() && src.rank() == x.rank() && ir::IsInt(index.dtype());
}

// t with zeros behind it, in the shape of x.
Tensor PaddedTo(const Tensor& t, const Tensor& x, Site site) {
  Dims after = x.dims();
  for (size_t i = 0; i < after.size(); ++i) after[i] -= t.dims()[i];
  return t.Pad(Dims(after.size(), 0), after, 0, site);
}

}  // namespace

Tensor Scatter(const Tensor& x, int64_t axis, const Tensor& index, Operand src) {
  const Site site = src.site();
  if (auto error = FirstError("Scatter", {&x, &index}, site)) return *error;
  Tensor values;
  if (src.tensor() != nullptr) {
    if (auto error = FirstError("Scatter", {&x, src.tensor()}, site)) return *error;
    values = src.tensor()->Cast(x.dtype(), site);
  } else {
    const absl::Status fits = CheckNumber(x.dtype(), src);
    if (!fits.ok()) return Poisoned(x.state()->graph, Located("Scatter", site, fits));
    values = ExpandTo(NumberLike(x, x.dtype(), src), SizesOf(index), "Scatter", site);
  }
  if (NeedsBox(x, axis, index, values)) {
    const Box box(x, *Axis(axis, x.rank()), index, values, site);
    return Cornered(Scatter(box.x, axis, box.index, {box.src, site}), SizesOf(x), site);
  }
  const Pairs p = PairsOf("Scatter", x, axis, index, values, site);
  if (p.error) return *p.error;
  if (index.size() == 0) return Another(x);
  // The number of the last index that hits, from 1 on; 0: there is none.
  const Tensor number = IotaAlong(p.hit, -1, Dtype::I64) + 1;
  const Tensor last = Where(p.hit, number, 0).Max({-1}, false, site);
  const Tensor chosen = p.src.Gather(p.axis, last - 1, site);
  return Where({PaddedTo(last, x, site) > 0, site}, PaddedTo(chosen, x, site), x);
}

Tensor ScatterReduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src,
                     ScatterMode mode, bool include_self, Site site) {
  if (auto error = FirstError("ScatterReduce", {&x, &index, &src}, site)) return *error;
  if (NeedsBox(x, axis, index, src)) {
    const Box box(x, *Axis(axis, x.rank()), index, src, site);
    return Cornered(ScatterReduce(box.x, axis, box.index, box.src, mode, include_self, site),
                    SizesOf(x), site);
  }
  const bool floats = ir::IsFloat(x.dtype());
  // Narrow floats are rounded once.
  const Tensor self = floats ? Wide(x, site) : x;
  const Tensor from = src.Cast(self.dtype(), site);
  if (mode == ScatterMode::kAmin) {
    // By an operation that reverses the order.
    auto reversed = [&](const Tensor& t) { return floats ? t.Neg(site) : t.Not(site); };
    const Tensor out = ScatterReduce(reversed(self), axis, index, reversed(from),
                                     ScatterMode::kAmax, include_self, site);
    return (out.status().ok() ? reversed(out) : out).Cast(x.dtype(), site);
  }
  const Pairs p = PairsOf("ScatterReduce", x, axis, index, from, site);
  if (p.error) return *p.error;
  if (index.size() == 0) return Another(x);
  const Tensor count = PaddedTo(p.hit.Sum({-1}, false, site), x, site);
  auto reduced = [&](const Tensor& identity) { return Where(p.hit, p.values, identity); };
  Tensor out;
  if (mode == ScatterMode::kAmax) {
    const Tensor least =
        floats ? Like(self, -std::numeric_limits<double>::infinity())
               : Made(self, Ctx(self).Int(self.dtype(), ir::RangeOf(self.dtype()).min),
                      "ScatterReduce", site);
    out = PaddedTo(reduced(least).Max({-1}, false, site), x, site);
    if (include_self) out = self.Maximum({out, site});
  } else if (mode == ScatterMode::kProd) {
    out = PaddedTo(reduced(Like(self, 1)).Prod({-1}, false, site), x, site);
    if (include_self) out = self * out;
  } else {
    out = PaddedTo(reduced(Like(self, 0)).Sum({-1}, false, site), x, site);
    if (include_self) out = self + out;
    if (mode == ScatterMode::kMean) {
      const Tensor n = count + (include_self ? 1 : 0);
      const Tensor by = n.Maximum(1).Cast(out.dtype(), site);
      out = floats ? out / by : out.FloorDiv(by);
    }
  }
  return Where({count > 0, site}, out.Cast(x.dtype(), site), x);
}

Tensor MaskedSelect(const Tensor& x, const Tensor& mask, int64_t size, double fill, Site site) {
  if (x.status().ok() && mask.status().ok() && x.is_symbolic()) {
    // The mask is false where the box adds elements.
    const Tensor all = ExpandTo(mask, SizesOf(x), "MaskedSelect", site);
    return MaskedSelect(Boxed(x, site), Boxed(all, site), size, fill, site);
  }
  if (auto error = Refused("MaskedSelect", {&x, &mask}, site)) return *error;
  if (mask.dtype() != Dtype::Bool || size < 0) {
    return Wrong(x, "MaskedSelect", site,
                 Cat(size, " elements by a mask of ", ir::Name(mask.dtype())));
  }
  if (const absl::Status fits = CheckNumber(x.dtype(), fill); !fits.ok())
    return Poisoned(x.state()->graph, Located("MaskedSelect", site, fits));
  Tensor whole = mask.Expand(x.dims(), site);
  if (!whole.status().ok()) return whole;
  const Tensor flat = whole.Flatten(0, site), values = x.Flatten(0, site);
  const Dtype count = PositionDtype(std::max(x.size(), size));
  // The number of each element among those for which the mask is true, from 1 on.
  const Tensor number = Where(flat, flat.Cast(count, site).CumSum(0, site), 0).Contiguous(site);
  const Tensor wanted = IotaLike(x, size, count) + 1;
  const Tensor total = flat.Cast(count, site).Sum({}, false, site);
  if (static_cast<double>(x.size()) * static_cast<double>(size) > kFewPairs) {
    // The running count reaches a number at the element that it belongs to.
    const Tensor running = flat.Cast(count, site).CumSum(0, site).Contiguous(site);
    const Tensor at = CountBelow(running, wanted, false, site);
    const Tensor out = AtPositions(values.Unsqueeze(1, site), at.Unsqueeze(1, site),
                                   (number - 1).Unsqueeze(1, site), site);
    return Where({wanted <= total, site}, out.Squeeze(1, site), Like(x, fill));
  }
  const Tensor hit = number == wanted.Unsqueeze(-1, site);
  const Tensor chosen = Where(hit, values, Like(x, 0));
  const Tensor out = x.dtype() == Dtype::Bool ? chosen.Max({1}, false, site)
                                              : chosen.Sum({1}, false, site).Cast(x.dtype(), site);
  return Where({wanted <= total, site}, out, Like(x, fill));
}

Tensor MaskedPut(const Tensor& x, const Tensor& mask, const Tensor& values, Site site) {
  const bool made = x.status().ok() && mask.status().ok() && values.status().ok();
  if (made && x.is_symbolic() && mask.rank() <= x.rank() &&
      ir::SameShape(ShapeOf(mask), ShapeOf(x).subspan(0, static_cast<size_t>(mask.rank())))) {
    // The mask is false where the box adds elements.
    const Tensor box = MaskedPut(Boxed(x, site), Boxed(mask, site), Boxed(values, site), site);
    return box.status().ok() ? Cornered(box, SizesOf(x), site) : box;
  }
  if (auto error = Refused("MaskedPut", {&x, &mask, &values}, site)) return *error;
  const auto axes = static_cast<size_t>(std::min(mask.rank(), x.rank()));
  const Dims lead(x.dims().begin(), x.dims().begin() + static_cast<ptrdiff_t>(axes)),
      rest(x.dims().begin() + static_cast<ptrdiff_t>(axes), x.dims().end());
  Dims wanted = rest;
  wanted.insert(wanted.begin(), values.rank() == 0 ? 0 : values.dims()[0]);
  if (mask.dtype() != Dtype::Bool || mask.dims() != lead || values.dims() != wanted) {
    return Wrong(x, "MaskedPut", site,
                 Cat("a mask of ", ir::Name(mask.dtype()), " ", Text(mask.dims()),
                     " and values of shape ", Text(values.dims()), " for shape ", Text(x.dims())));
  }
  if (x.size() == 0 || wanted[0] == 0) return Another(x);
  Dims flat = rest, column(rest.size() + 1, 1);
  flat.insert(flat.begin(), mask.size());
  column[0] = mask.size();
  const Tensor here = mask.Flatten(0, site);
  const Tensor number = (here.Cast(Dtype::I64, site).CumSum(0, site) - 1).Contiguous(site);
  const Tensor chosen = values.Cast(x.dtype(), site).IndexSelect(0, number, site);
  const Tensor put = here & (number < wanted[0]);
  return Where({put.Reshape(column, site), site}, chosen, x.Reshape(flat, site))
      .Reshape(x.dims(), site);
}

Tensor Nonzero(const Tensor& x, int64_t size, int64_t fill, Site site) {
  // What the box adds is 0, and positions along an axis are the same there.
  if (x.status().ok() && x.is_symbolic()) return Nonzero(Boxed(x, site), size, fill, site);
  if (auto error = Refused("Nonzero", {&x}, site)) return *error;
  const Dtype dtype = PositionDtype(x.size());
  Tensor at = MaskedSelect(IotaLike(x, x.size(), dtype).Reshape(x.dims(), site),
                           x.Cast(Dtype::Bool, site), size, -1, site);
  if (!at.status().ok()) return at;
  if (x.rank() == 0) return at.Reshape({size, 1}, site).Narrow(1, 0, 0, site);
  std::vector<Tensor> columns;
  int64_t stride = x.size();
  for (int64_t d : x.dims()) {
    stride = d == 0 ? 1 : stride / d;
    const Tensor column = at.FloorDiv(std::max<int64_t>(stride, 1)) % std::max<int64_t>(d, 1);
    columns.push_back(Where(at < 0, fill, column));
  }
  return Stack(columns, 1, site);
}

}  // namespace uopd::client::fn
