// SPDX-License-Identifier: MIT
#include "client/cpp/ops/common.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "client/cpp/ops/elementwise/exp_parts.h"
#include "client/cpp/ops/elementwise/operands.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "uopd/movement.h"

namespace uopd::client::fn {

std::optional<Tensor> FirstError(std::string_view what, std::span<const Tensor* const> all,
                                 Site site) {
  for (const Tensor* t : all) {
    if (t->state() == nullptr) return Poisoned(nullptr, Located(what, site, t->status()));
    if (!t->status().ok()) return *t;
    if (t->state()->graph != all[0]->state()->graph)
      return Wrong(*t, what, site, "operands belong to different clients");
  }
  return std::nullopt;
}

std::optional<Tensor> Refused(std::string_view what, std::initializer_list<const Tensor*> all,
                              Site site) {
  if (auto error = FirstError(what, all, site)) return error;
  for (const Tensor* t : all) {
    if (auto error = Symbolic(*t, what, site)) return error;
  }
  return std::nullopt;
}

Tensor Wide(const Tensor& x, Site site) {
  return ir::IsFloat(x.dtype()) && ir::Bits(x.dtype()) >= 32 ? x : As(x, Dtype::F32, site);
}

FloatPair FloatPairOf(std::string_view what, Operand a, Operand b) {
  FloatPair out;
  Operands v(what, {&a, &b});
  if (!v.ok()) {
    out.error = v.failed();
    return out;
  }
  out.dtype = FloatOf(v.dtype());
  v.set_dtype(ir::Bits(out.dtype) < 32 ? Dtype::F32 : out.dtype);
  out.a = v.Make(v[0]);
  out.b = v.Make(v[1]);
  if (!ir::BroadcastShapes(ShapeOf(out.a), ShapeOf(out.b))) {
    out.error =
        Wrong(v.leader(), what, v.site(),
              Cat("shapes ", Text(out.a.dims()), " and ", Text(out.b.dims()), " do not broadcast"));
  }
  return out;
}

std::optional<Dims> PerAxis(const Dims& v, size_t n) {
  if (v.size() == n) return v;
  return v.size() == 1 ? std::optional(Dims(n, v[0])) : std::nullopt;
}

Tensor Padded(const Tensor& x, const Dims& padding, double value, Site site) {
  if (std::ranges::all_of(padding, [](int64_t p) { return p == 0; })) return x;
  Dims around(x.dims().size(), 0);
  std::copy(padding.begin(), padding.end(), around.end() - static_cast<ptrdiff_t>(padding.size()));
  const bool cuts = std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p < 0; });
  return cuts ? Pad(x, around, around, PadMode::kConstant, value, site)
              : x.Pad(around, around, value, site);
}

Tensor Least(const Tensor& t, Site site) {
  if (ir::IsFloat(t.dtype()))
    return ScalarLike(t, t.dtype(), -std::numeric_limits<double>::infinity());
  return Made(t, Ctx(t).Int(t.dtype(), ir::RangeOf(t.dtype()).min), "constant", site);
}

Tensor ExpOfOffset(const Tensor& off) { return (off * std::numbers::log2e).Exp2(); }

Tensor WithGradientOf(const Tensor& value, const Tensor& way, Site site) {
  if (!value.status().ok()) return value;
  if (!way.status().ok()) return way;
  return Made(value, Ctx(value).Make(ir::Op::DETACH, value.dtype(), {Value(value), Value(way)}),
              "WithGradientOf", site);
}

Tensor Guarded(const Tensor& condition, const Tensor& x, double v) {
  return Where(condition, x, Like(x, v));
}

Tensor Polynomial(const Tensor& u, std::span<const double> c) {
  Tensor out = Like(u, c.back());  // a scalar, so it broadcasts
  for (size_t i = c.size() - 1; i-- > 0;) out = MulAdd(out, u, c[i]);
  return out;
}

Tensor SignBit(const Tensor& x) {
  const int bits = ir::Bits(x.dtype());
  return x.Bitcast(bits == 16 ? Dtype::I16 : bits == 32 ? Dtype::I32 : Dtype::I64) < 0;
}

Tensor TrueLike(const Tensor& x) {
  const ir::UOp shape = ir::ShapeArg(Ctx(x), ShapeOf(x));
  return Made(x, ir::Expand(Ctx(x), Ctx(x).Bool(true), shape), "constant", Site::current());
}

Tensor IotaAlong(const Tensor& t, int64_t axis, Dtype dtype) {
  const auto a = static_cast<size_t>(*Axis(axis, t.rank()));
  ir::SymbolicDims column(t.dims().size(), Ctx(t).Idx(1));
  column[a] = ShapeOf(t)[a];
  return ReshapeTo(IotaOf(t, column[a], dtype), column, "iota", Site::current());
}

}  // namespace uopd::client::fn
