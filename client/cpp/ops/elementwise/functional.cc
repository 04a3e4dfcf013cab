// SPDX-License-Identifier: MIT
#include "uopd/functional.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

Dims LastAxes(size_t n) {
  Dims out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(n));
  return out;
}

// Whether v is a vector for the second axis of x, or has as many axes as x and broadcasts to its
// shape.
bool FitsSecondAxis(const Tensor& v, const Tensor& x) {
  if (v.dims() == Dims{x.dims()[1]}) return true;
  bool fits = v.rank() == x.rank();
  for (size_t i = 0; fits && i < x.dims().size(); ++i)
    fits = v.dims()[i] == x.dims()[i] || v.dims()[i] == 1;
  return fits;
}

// v of shape (c) against the second of `rank` axes; what has all axes stays as it is.
Tensor Column(const Tensor& v, int64_t rank, Site site) {
  if (v.rank() == rank) return v;
  Dims to(static_cast<size_t>(rank), 1);
  to[1] = v.size();
  return v.Reshape(to, site);
}

}  // namespace

Tensor Conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
            Site site) {
  if (auto error = FirstError("Conv", {&x, &weight}, site)) return *error;
  if (Has(bias) && !bias.status().ok()) return bias;
  if (auto error = Symbolic(weight, "Conv", site)) return *error;
  const int64_t groups = options.groups;
  const size_t axes = x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2);
  const auto stride = PerAxis(options.stride, axes), padding = PerAxis(options.padding, axes),
             dilation = PerAxis(options.dilation, axes);
  bool fits = axes > 0 && weight.rank() == x.rank() && groups > 0 && stride && padding && dilation;
  fits = fits && x.dims()[1] == weight.dims()[1] * groups && weight.dims()[0] % groups == 0;
  fits = fits && (!Has(bias) || bias.dims() == Dims{weight.dims()[0]});
  for (size_t i = 0; fits && i < axes; ++i) {
    const ir::Int128 span = ir::Int128{weight.dims()[2 + i] - 1} * (*dilation)[i] + 1;
    fits = span <= ir::Int128{SizeNow(x, 2 + i)} + 2 * ir::Int128{(*padding)[i]};
  }
  if (!fits) {
    return Wrong(
        x, "Conv", site,
        Cat("weight ", Text(weight.dims()), Has(bias) ? Cat(", bias ", Text(bias.dims())) : "",
            ", stride ", Text(options.stride), ", padding ", Text(options.padding), ", dilation ",
            Text(options.dilation), ", groups ", groups, " for shape ", Text(x.dims())));
  }
  const int64_t n = x.dims()[0], out = weight.dims()[0], in = weight.dims()[1];
  if (x.is_symbolic()) {
    ir::UOpContext& ctx = Ctx(x);
    ir::SymbolicDims sizes = SizesOf(x);
    sizes[1] = ctx.Idx(out);
    for (size_t i = 0; i < axes; ++i) {
      const int64_t span = (weight.dims()[2 + i] - 1) * (*dilation)[i] + 1;
      const ir::UOp more = ctx.Idx(2 * (*padding)[i] - span + (*stride)[i]);
      sizes[2 + i] = QuotientOf(ctx, SumOf(ctx, sizes[2 + i], more), (*stride)[i]);
    }
    return Cornered(Conv(Boxed(x, site), weight, bias, options, site), sizes, site);
  }
  const Dims kernel(weight.dims().begin() + 2, weight.dims().end());
  Tensor windows = Padded(x, *padding, 0, site).Windows(kernel, *stride, *dilation, site);
  if (!windows.status().ok()) return windows;
  const Dims spatial(windows.dims().begin() + 2,
                     windows.dims().begin() + 2 + static_cast<ptrdiff_t>(axes));
  // Multiplies (n, groups, 1, in, kernel..., spatial...) by (groups, out / groups, in, kernel...,
  // 1...). So the terms of the gradient of x, which are stored in this order, lie as x does.
  Dims split = {n, groups, in};
  split.insert(split.end(), spatial.begin(), spatial.end());
  split.insert(split.end(), kernel.begin(), kernel.end());
  Dims order = {0, 1, 2}, summed = {3};
  for (size_t i = 0; i < axes; ++i) order.push_back(static_cast<int64_t>(3 + axes + i));
  for (size_t i = 0; i < axes; ++i) order.push_back(static_cast<int64_t>(3 + i));
  for (size_t i = 0; i < axes; ++i) summed.push_back(static_cast<int64_t>(4 + i));
  const Tensor left = windows.Reshape(split, site).Permute(order, site).Unsqueeze(2, site);
  Dims by = {groups, out / groups, in};
  by.insert(by.end(), kernel.begin(), kernel.end());
  by.insert(by.end(), axes, 1);
  Dims shape = {n, out};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  const Tensor y = SumOfProducts(left, weight.Reshape(by, site), summed, site).Reshape(shape, site);
  return Has(bias) ? Operand(y, site) + Column(bias, x.rank(), site) : y;
}

Tensor ConvTranspose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const ConvTransposeOptions& options, Site site) {
  if (auto error = FirstError("ConvTranspose", {&x, &weight}, site)) return *error;
  if (auto error = Symbolic(weight, "ConvTranspose", site)) return *error;
  const int64_t groups = options.groups;
  const size_t axes = x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2);
  if (axes > 0 && !ShapeOf(x)[1].Is(ir::Op::CONST)) return *Symbolic(x, "ConvTranspose", site);
  const auto stride = PerAxis(options.stride, axes), padding = PerAxis(options.padding, axes),
             extra = PerAxis(options.output_padding, axes),
             dilation = PerAxis(options.dilation, axes);
  bool fits = axes > 0 && weight.rank() == x.rank() && groups > 0 && stride && padding && extra &&
              dilation && weight.dims()[0] == x.dims()[1] && x.dims()[1] % groups == 0;
  constexpr int64_t kMost = int64_t{1} << 20;  // keeps the arithmetic far from overflow
  for (size_t i = 0; fits && i < axes; ++i) {
    for (const int64_t v : {(*stride)[i], (*dilation)[i]}) fits &= v >= 1 && v <= kMost;
    for (const int64_t v : {(*padding)[i], (*extra)[i]}) fits &= v >= 0 && v <= kMost;
    // More output padding could be had by a larger image of Conv.
    fits = fits && (*extra)[i] < std::max((*stride)[i], (*dilation)[i]) && weight.dims()[2 + i] > 0;
  }
  if (!fits) {
    return Wrong(
        x, "ConvTranspose", site,
        Cat("weight ", Text(weight.dims()), ", stride ", Text(options.stride), ", padding ",
            Text(options.padding), ", output padding ", Text(options.output_padding), ", dilation ",
            Text(options.dilation), ", groups ", groups, " for shape ", Text(x.dims())));
  }
  // Zeros between the elements of x and around them; then the convolution with the mirrored kernel.
  Tensor spread = x;
  Dims before(x.dims().size(), 0), after = before, spatial;
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<int64_t>(2 + i);
    const int64_t n = spread.dims()[2 + i], step = (*stride)[i];
    if (step > 1 && n > 0) {
      Dims none(spread.dims().size() + 1, 0), gap = none;
      gap[3 + i] = step - 1;
      ir::SymbolicDims joined = SizesOf(spread);
      joined[2 + i] = ProductOf(Ctx(x), joined[2 + i], Ctx(x).Idx(step));
      const Tensor apart =
          Pad(spread.Unsqueeze(axis + 1, site), none, gap, PadMode::kConstant, 0, site);
      if (!apart.status().ok()) return apart;
      spread = ReshapeTo(apart, joined, "ConvTranspose", site);
      spread = SliceOf(spread, axis, 0, -(step - 1), site);  // no gap behind the last element
    }
    before[2 + i] = (*dilation)[i] * (weight.dims()[2 + i] - 1) - (*padding)[i];
    after[2 + i] = before[2 + i] + (*extra)[i];
    spatial.push_back(axis);
  }
  spread = Pad(spread, before, after, PadMode::kConstant, 0, site);
  if (!spread.status().ok()) return spread;
  const int64_t in = weight.dims()[0], out = weight.dims()[1];
  Dims split = {groups, in / groups, out}, joined = {groups * out, in / groups}, order = {0, 2, 1};
  for (size_t i = 0; i < axes; ++i) {
    split.push_back(weight.dims()[2 + i]);
    joined.push_back(weight.dims()[2 + i]);
    order.push_back(static_cast<int64_t>(3 + i));
  }
  Dims shape = {x.dims()[0], out * groups};
  for (size_t i = 0; i < axes; ++i)
    shape.push_back(spread.dims()[2 + i] - (*dilation)[i] * (weight.dims()[2 + i] - 1));
  if (*std::min_element(shape.begin() + 2, shape.end()) == 0)  // padding cuts everything off
    return ScalarLike(x, ir::Promote(x.dtype(), weight.dtype()), 0).Expand(shape, site);
  const Tensor mirrored =
      weight.Reshape(split, site).Permute(order, site).Reshape(joined, site).Flip(spatial, site);
  return Conv(spread, mirrored, bias,
              {.stride = {1}, .padding = {0}, .dilation = *dilation, .groups = groups}, site);
}

Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t axes,
                 double epsilon, Site site) {
  if (auto error = FirstError("LayerNorm", {&x}, site)) return *error;
  if (axes < 1 || axes > x.rank())
    return Wrong(x, "LayerNorm", site, Cat("over ", axes, " axes of shape ", Text(x.dims())));
  const Tensor wide = Wide(x, site);
  const auto [var, mean] = wide.VarMean(LastAxes(static_cast<size_t>(axes)), true, 0, site);
  Tensor y = (Operand(wide, site) - mean) * (var + epsilon).Rsqrt(site);
  if (Has(weight)) y = y * Operand(weight, site);
  if (Has(bias)) y = y + Operand(bias, site);
  return ir::IsFloat(x.dtype()) ? y.Cast(x.dtype(), site) : y;
}

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon, Site site) {
  if (auto error = FirstError("RmsNorm", {&x}, site)) return *error;
  if (x.rank() == 0) return Wrong(x, "RmsNorm", site, "the tensor is a scalar");
  const Tensor wide = Wide(x, site);
  Tensor y = Operand(wide, site) * (wide.Square(site).Mean({-1}, true, site) + epsilon).Rsqrt(site);
  if (Has(weight)) y = y * Operand(weight, site);
  return ir::IsFloat(x.dtype()) ? y.Cast(x.dtype(), site) : y;
}

Tensor BatchNorm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                 const Tensor& bias, double epsilon, Site site) {
  if (auto error = FirstError("BatchNorm", {&x, &mean, &var}, site)) return *error;
  if (x.rank() < 2) return Wrong(x, "BatchNorm", site, Cat("shape ", Text(x.dims())));
  for (const Tensor* t : {&mean, &var, &weight, &bias}) {
    if (!Has(*t)) continue;
    if (!t->status().ok()) return *t;
    if (!FitsSecondAxis(*t, x)) {
      return Wrong(x, "BatchNorm", site,
                   Cat("a parameter of shape ", Text(t->dims()), " for shape ", Text(x.dims())));
    }
  }
  const Tensor off = Operand(x, site) - Column(mean, x.rank(), site);
  // Vectors are multiplied as vectors.
  const Tensor root = (var + epsilon).Rsqrt(site);
  const bool vectors = Has(weight) && root.rank() == weight.rank();
  Tensor y = off * Column(vectors ? root * Operand(weight, site) : root, x.rank(), site);
  if (Has(weight) && !vectors) y = y * Column(weight, x.rank(), site);
  return Has(bias) ? y + Column(bias, x.rank(), site) : y;
}

Tensor Rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, Site site) {
  if (auto error = FirstError("Rotate", {&x, &cos, &sin}, site)) return *error;
  if (x.rank() == 0 || x.dims().back() % 2 != 0)
    return Wrong(x, "Rotate", site, Cat("the last axis of shape ", Text(x.dims()), " is odd"));
  // Works on the shape (..., 2, half): the two coordinates of each point, and the same with the
  // coordinates exchanged. So nothing has to be padded or joined.
  const int64_t half = x.dims().back() / 2;
  ir::SymbolicDims split = SizesOf(x);
  split.back() = Ctx(x).Idx(2);
  split.push_back(Ctx(x).Idx(half));
  const Tensor point = ReshapeTo(x, split, "Rotate", site);
  const Tensor first = (IotaLike(x, 2, Dtype::I32) == Operand(0, site)).Unsqueeze(-1, site);
  const Tensor s = sin.Unsqueeze(-2, site), sign = Where({first, site}, s.Neg(site), s);
  Tensor y = Operand(point, site) * cos.Unsqueeze(-2, site) + point.Flip({-2}, site) * sign;
  if (!y.status().ok()) return y;
  ir::SymbolicDims joined = SizesOf(y);
  joined.pop_back();
  joined.back() = Ctx(x).Idx(2 * half);
  return ReshapeTo(y, joined, "Rotate", site).Cast(x.dtype(), site);
}

namespace {

struct Masked {
  std::optional<Tensor> error;
  Tensor scores;
  Tensor some;  // true where a query sees any key; empty: all of them do
};

// Scores without the keys that a query does not see. No row becomes NaN, and no gradient: a query
// that sees no key keeps finite scores, and its result is to be replaced by 0. So keys that the
// mask hides have the lowest finite score instead of -inf, and a row whose maximum that is has no
// other: the maximum is computed for the softmax anyway. The mask broadcasts to the scores. `later`
// is true for keys that come too late, `early` where a query sees a key that does not; all three
// may be empty.
Masked Without(const Tensor& scores, const Tensor& mask, const Tensor& later, const Tensor& early,
               Site site) {
  Masked out{.scores = scores, .some = early};
  const double lowest = scores.dtype() == Dtype::F64 ? std::numeric_limits<double>::lowest()
                                                     : std::numeric_limits<float>::lowest();
  auto like = [&](double v) { return ScalarLike(scores, scores.dtype(), v); };
  if (Has(mask) && mask.dtype() == Dtype::Bool) {
    out.scores = Where({mask, site}, scores, like(lowest));
  } else if (Has(mask)) {
    // Masks that hide by a low number are no different from others: equal scores have equal
    // weights, and gradients.
    const Tensor sum = Operand(scores, site) + mask;
    if (!sum.status().ok()) {
      out.error = sum;
      return out;
    }
    const Tensor above = BinaryOp(sum, lowest / 2, ir::Op::MAX, "Attention");
    const Tensor shown = WithGradientOf(above, sum, site);
    out.scores =
        Where({mask != -std::numeric_limits<double>::infinity(), site}, shown, like(lowest));
  }
  if (Has(later)) {
    const Tensor never = like(-std::numeric_limits<double>::infinity());
    const Tensor fill = Has(early) ? Where({early, site}, never, like(0)) : never;
    out.scores = Where({later, site}, fill, out.scores);
  }
  if (Has(mask) && out.scores.status().ok()) {
    const Tensor reached = out.scores.Max({-1}, true, site) > lowest;
    out.some = Has(early) ? early & reached : reached;
  }
  if (!out.scores.status().ok()) out.error = out.scores;
  return out;
}

}  // namespace

Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 const AttentionOptions& options, Site site) {
  if (auto error = FirstError("Attention", {&q, &k, &v}, site)) return *error;
  if (Has(mask) && !mask.status().ok()) return mask;
  const int64_t rank = q.rank();
  auto wrong = [&] {
    return Wrong(
        q, "Attention", site,
        Cat("queries ", Text(q.dims()), ", keys ", Text(k.dims()), ", values ", Text(v.dims())));
  };
  if (rank < 3 || k.rank() != rank || v.rank() != rank) return wrong();
  const auto head = static_cast<size_t>(rank - 3);
  const int64_t heads = q.dims()[head], kv = k.dims()[head], d = q.dims().back();
  if (kv == 0 || heads % kv != 0 || v.dims()[head] != kv || k.dims().back() != d) return wrong();
  // Shapes (..., kv, heads / kv, L, d) and (..., kv, 1, S, d) broadcast against each other.
  auto grouped = [&](const Tensor& t) {
    ir::SymbolicDims to = SizesOf(t);
    to[head] = Ctx(t).Idx(kv);
    to.insert(to.begin() + static_cast<ptrdiff_t>(head) + 1, Ctx(t).Idx(heads / kv));
    return ReshapeTo(t, to, "Attention", site);
  };
  const bool shared = heads != kv;
  const Tensor queries = shared ? grouped(q) : q, keys = shared ? k.Unsqueeze(-3, site) : k,
               values = shared ? v.Unsqueeze(-3, site) : v;
  const ir::UOp width = ShapeOf(q).back();
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(d)));
  Dtype dtype = FloatOf(ir::Promote(ir::Promote(q.dtype(), k.dtype()), v.dtype()));
  if (Has(mask) && mask.dtype() != Dtype::Bool) dtype = ir::Promote(dtype, mask.dtype());
  // Scores and softmax of floats under 32 bits are f32. The weights are rounded, as the values are.
  Tensor scores = Wide(queries, site).MatMul({Wide(keys, site).Transpose(-2, -1, site), site});
  if (!scores.status().ok()) return scores;
  scores = options.scale || width.Is(ir::Op::CONST) ? scores * scale
                                                    : scores * SizeAs(scores, width).Rsqrt(site);
  Tensor m = mask;
  if (Has(mask) && shared && mask.rank() >= 3) {
    ir::SymbolicDims split = SizesOf(mask);
    const auto at = mask.dims().size() - 3;
    if (!split[at].IsConstInt(1) && !split[at].IsConstInt(heads)) return wrong();
    if (split[at].IsConstInt(1)) {
      m = mask.Unsqueeze(-3, site);
    } else {
      split[at] = Ctx(mask).Idx(kv);
      split.insert(split.begin() + static_cast<ptrdiff_t>(at) + 1, Ctx(mask).Idx(heads / kv));
      m = ReshapeTo(mask, split, "Attention", site);
    }
  }
  Tensor later, early;
  if (options.causal) {
    ir::UOpContext& ctx = Ctx(q);
    const ir::UOp rows = ShapeOf(q)[head + 1], columns = ShapeOf(k)[head + 1];
    const ir::UOp before = DifferenceOf(ctx, columns, rows);
    Tensor row = IotaOf(q, rows, Dtype::I64).Unsqueeze(-1, site);
    row = before.Is(ir::Op::CONST) ? row + before.const_int() : row + SizeTensor(q, before);
    later = row < IotaOf(q, columns, Dtype::I64);
    if (!IsNatural(ctx, before)) early = row >= 0;
  }
  const Masked masked = Without(scores, m, later, early, site);
  if (masked.error) return *masked.error;
  scores = masked.scores;
  const Tensor weights = scores.Softmax(-1, site).Dropout(options.dropout, site);
  Tensor y = weights.Cast(dtype, site).MatMul({values, site});
  if (y.status().ok()) y = y.Cast(dtype, site);
  if (Has(masked.some) && y.status().ok())
    y = Where({masked.some, site}, y, ScalarLike(y, dtype, 0));
  if (!shared || !y.status().ok()) return y;
  ir::SymbolicDims to = SizesOf(q);
  to.back() = ShapeOf(v).back();
  return ReshapeTo(y, to, "Attention", site);
}

Tensor Embedding(const Tensor& weight, const Tensor& index, Site site) {
  if (auto error = FirstError("Embedding", {&weight, &index}, site)) return *error;
  if (weight.rank() != 2)
    return Wrong(weight, "Embedding", site, Cat("weight of shape ", Text(weight.dims())));
  return weight.IndexSelect(0, index, site);
}

}  // namespace uopd::client::fn
