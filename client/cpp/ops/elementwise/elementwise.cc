// SPDX-License-Identifier: MIT
// Elementwise operations: promotion, broadcasting, and functions that are built from ops of the IR.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/operands.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/gradient.h"

namespace uopd::client {

using ir::Op;

namespace {

Tensor Compare(Operand a, Operand b, Op op, std::string_view what) {
  return BinaryOp(a, b, op, what);
}

}  // namespace

absl::Status CheckNumber(Dtype dtype, double v) {
  if (ir::IsFloat(dtype) || dtype == Dtype::Bool) return absl::OkStatus();
  const ir::IntRange range = ir::RangeOf(dtype);
  const bool fits = std::abs(v) < 0x1p64 && ir::WholeNumber(dtype, v) >= range.min &&
                    ir::WholeNumber(dtype, v) <= range.max;  // false for NaN
  return fits ? absl::OkStatus()
              : absl::InvalidArgumentError(Cat(v, " is no value of ", ir::Name(dtype)));
}

absl::Status CheckNumber(Dtype dtype, const Operand& number) {
  if (!number.is_integer() || ir::IsFloat(dtype) || dtype == Dtype::Bool)
    return CheckNumber(dtype, number.number());
  const ir::IntRange range = ir::RangeOf(dtype);
  const bool fits = number.integer() >= range.min && number.integer() <= range.max;
  return fits ? absl::OkStatus()
              : absl::InvalidArgumentError(
                    Cat(number.integer(), " is no value of ", ir::Name(dtype)));
}

ir::UOp NumberOf(ir::UOpContext& ctx, Dtype dtype, const Operand& number) {
  const bool exact = number.is_integer() && !ir::IsFloat(dtype) && dtype != Dtype::Bool;
  return exact ? ctx.Int(dtype, number.integer()) : ctx.Const(dtype, number.number());
}

Tensor NumberLike(const Tensor& t, Dtype dtype, const Operand& number) {
  return Made(t, NumberOf(Ctx(t), dtype, number), "constant", Site::current());
}

Tensor ScalarLike(const Tensor& t, Dtype dtype, double v) {
  return Made(t, Ctx(t).Const(dtype, v), "constant", Site::current());
}

Tensor IotaLike(const Tensor& t, int64_t n, Dtype dtype) {
  return Made(t, ir::Iota(Ctx(t), dtype, ir::ShapeArg(Ctx(t), Dims{n}), 0), "iota",
              Site::current());
}

Tensor UnaryOp(const Tensor& t, Op op, std::string_view what, Site site) {
  if (t.state() == nullptr) return Poisoned(nullptr, Located(what, site, t.status()));
  if (!t.status().ok()) return t;
  const bool needs_float = (ir::Info(op).groups & ir::kFloatOnly) != 0 && !ir::IsFloat(t.dtype());
  return Made(
      t, ir::Alu(Ctx(t), op, {ir::Cast(Ctx(t), Value(t), needs_float ? Dtype::F32 : t.dtype())}),
      what, site);
}

Tensor BinaryOp(Operand a, Operand b, Op op, std::string_view what, int64_t tag) {
  Operands v(what, {&a, &b});
  if (!v.ok()) return v.failed();
  if ((ir::Info(op).groups & ir::kFloatOnly) != 0 && !ir::IsFloat(v.dtype()))
    v.set_dtype(Dtype::F32);
  const ir::UOp u = ir::Alu(v.ctx(), op, {v[0], v[1]});
  if (tag == 0) return v.Make(u);
  return v.Make(ir::Replace(v.ctx(), u, {.tag = tag}));
}

Tensor operator+(Operand a, Operand b) { return BinaryOp(a, b, Op::ADD, "+"); }
Tensor operator-(Operand a, Operand b) { return BinaryOp(a, b, Op::SUB, "-"); }
Tensor operator*(Operand a, Operand b) { return BinaryOp(a, b, Op::MUL, "*"); }
Tensor operator/(Operand a, Operand b) {
  if (auto sigmoid = MaybeSigmoid(a, b)) return *std::move(sigmoid);
  return BinaryOp(a, b, Op::FDIV, "/");
}
Tensor operator&(Operand a, Operand b) { return BinaryOp(a, b, Op::AND, "&"); }
Tensor operator|(Operand a, Operand b) { return BinaryOp(a, b, Op::OR, "|"); }
Tensor operator^(Operand a, Operand b) { return BinaryOp(a, b, Op::XOR, "^"); }
Tensor operator<<(Operand a, Operand b) { return BinaryOp(a, b, Op::SHL, "<<"); }
Tensor operator>>(Operand a, Operand b) { return BinaryOp(a, b, Op::SHR, ">>"); }
Tensor operator<(Operand a, Operand b) { return Compare(a, b, Op::CMPLT, "<"); }
Tensor operator>(Operand a, Operand b) { return Compare(b, a, Op::CMPLT, ">"); }
// x <= y is built as (x < y or x == y), because not (y < x) would be true for NaN.
Tensor operator<=(Operand a, Operand b) {
  return Compare(a, b, Op::CMPLT, "<=") | Compare(a, b, Op::CMPEQ, "<=");
}
Tensor operator>=(Operand a, Operand b) {
  return Compare(b, a, Op::CMPLT, ">=") | Compare(a, b, Op::CMPEQ, ">=");
}
Tensor operator==(Operand a, Operand b) { return Compare(a, b, Op::CMPEQ, "=="); }
Tensor operator!=(Operand a, Operand b) { return Compare(a, b, Op::CMPNE, "!="); }

Tensor Tensor::Pow(Operand b) const {
  const Operand a(*this, b.site());
  Operands v("Pow", {&a, &b});
  if (!v.ok()) return v.failed();
  if (v.dtype() == Dtype::Bool) v.set_dtype(Dtype::I32);
  if (!ir::IsFloat(v.dtype()) && b.tensor() == nullptr && b.integer() < 0) {
    return Wrong(*this, "Pow", b.site(),
                 Cat("integers have no negative powers (", b.integer(), "): Cast them to floats"));
  }
  return v.Make(ir::Alu(v.ctx(), Op::POW, {v[0], v[1]}));
}
Tensor Tensor::Maximum(Operand b) const {
  return BinaryOp({*this, b.site()}, b, Op::MAX, "Maximum");
}

namespace {

Tensor Smaller(Operand a, Operand b, std::string_view what, int64_t tag = 0) {
  Operands v(what, {&a, &b});
  if (!v.ok()) return v.failed();
  const Tensor x = v.Make(v[0]), y = v.Make(v[1]);
  const Site site = v.site();
  // By operations that reverse the order: ~ does so for integers, without overflow.
  if (ir::IsFloat(v.dtype()))
    return BinaryOp({x.Neg(), site}, {y.Neg(), site}, Op::MAX, what, tag).Neg();
  return BinaryOp({x.Not(), site}, {y.Not(), site}, Op::MAX, what, tag).Not();
}

}  // namespace

Tensor Tensor::Minimum(Operand b) const { return Smaller({*this, b.site()}, b, "Minimum"); }

Tensor Tensor::AtLeast(Operand low) const {
  return BinaryOp({*this, low.site()}, low, Op::MAX, "AtLeast", rules::kTieFirst);
}
Tensor Tensor::AtMost(Operand high) const {
  return Smaller({*this, high.site()}, high, "AtMost", rules::kTieFirst);
}

Tensor Where(Operand condition, Operand a, Operand b) {
  Operands c("Where", {&condition});
  if (!c.ok()) return c.failed();
  // If both operands are numbers, the client is that of the condition, and the numbers decide the
  // dtype.
  if (a.tensor() == nullptr && b.tensor() == nullptr) {
    const bool integers = a.is_integer() && b.is_integer();
    const Tensor x =
        ScalarLike(*condition.tensor(), integers ? Dtype::I32 : Dtype::F32, a.number());
    return Where(condition, {x, a.site()}, b);
  }
  Operands v("Where", {&a, &b});
  if (!v.ok()) return v.failed();
  if (v.leader().state()->graph != condition.tensor()->state()->graph) {
    return Wrong(v.leader(), "Where", v.site(), "operands belong to different clients");
  }
  return v.Make(
      ir::Where(v.ctx(), ir::Cast(v.ctx(), Value(*condition.tensor()), Dtype::Bool), v[0], v[1]));
}

Tensor As(const Tensor& t, Dtype dtype, Site site) {
  if (!t.status().ok() || t.dtype() == dtype) return t;
  return Made(t, ir::Cast(Ctx(t), Value(t), dtype), "Cast", site);
}
Tensor Tensor::Cast(Dtype dtype, Site site) const {
  return this->dtype() == dtype ? Another(*this) : As(*this, dtype, site);
}
namespace {

Dtype UnsignedOf(int64_t bytes) {
  return bytes == 1 ? Dtype::U8 : bytes == 2 ? Dtype::U16 : bytes == 4 ? Dtype::U32 : Dtype::U64;
}

// Bitcast to a dtype of another size: the last axis has more or fewer elements. The first element
// has the low bits.
Tensor BitcastSizes(const Tensor& t, Dtype dtype, Site site) {
  const int64_t from = ir::ByteSize(t.dtype()), to = ir::ByteSize(dtype);
  const Dtype narrow = UnsignedOf(std::min(from, to)), wide = UnsignedOf(std::max(from, to));
  const int64_t parts = std::max(from, to) / std::min(from, to), bits = 8 * std::min(from, to);
  if (t.rank() == 0 || (to > from && t.dims().back() % parts != 0)) {
    return Wrong(t, "Bitcast", site,
                 Cat("the last axis of ", ir::Name(t.dtype()), " ", Text(t.dims()),
                     " is no whole number of ", ir::Name(dtype), " elements"));
  }
  if (t.is_symbolic()) {
    ir::UOpContext& ctx = Ctx(t);
    ir::SymbolicDims sizes = SizesOf(t);
    const ir::UOp last = to > from ? ir::MaybeDivided(ctx, sizes.back(), parts)
                                   : ProductOf(ctx, sizes.back(), ctx.Idx(parts));
    if (!last)
      return Wrong(t, "Bitcast", site,
                   Cat("the last axis is no multiple of ", parts, " for all sizes"));
    sizes.back() = last.Is(Op::CONST) ? last : ir::CanonicalSize(ctx, last);
    return Cornered(BitcastSizes(Boxed(t, site), dtype, site), sizes, site);
  }
  Dims dims = t.dims();
  if (to > from) {
    dims.back() /= parts;
    dims.push_back(parts);
    const Tensor words = t.Bitcast(narrow, site).Cast(wide, site).Reshape(dims, site);
    // No sum, which would be a kernel of its own: what uses the words computes them.
    Tensor all = words.Select(-1, 0, site);
    for (int64_t i = 1; i < parts; ++i)
      all = all | (words.Select(-1, i, site) << Operand(i * bits, site));
    return all.Bitcast(dtype, site);
  }
  dims.back() *= parts;
  const Tensor shift = IotaLike(t, parts, wide) * bits;
  const Tensor words = t.Bitcast(wide, site).Unsqueeze(-1, site) >> shift;
  return words.Cast(narrow, site).Reshape(dims, site).Bitcast(dtype, site);
}

}  // namespace

Tensor Tensor::Bitcast(Dtype dtype, Site site) const {
  if (!status().ok() || this->dtype() == dtype) return Another(*this);
  if (ir::ByteSize(dtype) > 0 && ir::ByteSize(dtype) != ir::ByteSize(this->dtype()))
    return BitcastSizes(*this, dtype, site);
  return Made(*this, ir::Bitcast(Ctx(*this), Value(*this), dtype), "Bitcast", site);
}

Tensor Tensor::Neg(Site site) const { return UnaryOp(*this, Op::NEG, "Neg", site); }
Tensor Tensor::Exp2(Site site) const { return UnaryOp(*this, Op::EXP2, "Exp2", site); }
Tensor Tensor::Log2(Site site) const { return UnaryOp(*this, Op::LOG2, "Log2", site); }
Tensor Tensor::Sin(Site site) const { return UnaryOp(*this, Op::SIN, "Sin", site); }
Tensor Tensor::Sqrt(Site site) const { return UnaryOp(*this, Op::SQRT, "Sqrt", site); }
Tensor Tensor::Reciprocal(Site site) const {
  return UnaryOp(*this, Op::RECIPROCAL, "Reciprocal", site);
}
Tensor Tensor::Trunc(Site site) const {
  return ir::IsFloat(dtype()) ? UnaryOp(*this, Op::TRUNC, "Trunc", site) : Another(*this);
}

Tensor Tensor::Not(Site site) const {
  if (!status().ok()) return *this;
  if (ir::IsFloat(dtype()))
    return Wrong(*this, "Not", site, "a tensor of floats has no complement");
  return *this ^ Operand(ScalarLike(*this, dtype(), dtype() == Dtype::Bool ? 1 : -1), site);
}

Tensor Tensor::Exp(Site site) const { return UnaryOp(*this, Op::EXP, "Exp", site); }
Tensor Tensor::Log(Site site) const { return UnaryOp(*this, Op::LOG, "Log", site); }
Tensor Tensor::Cos(Site site) const { return UnaryOp(*this, Op::COS, "Cos", site); }
Tensor Tensor::Rsqrt(Site site) const {
  return fn::InWide("Rsqrt", *this, site,
                    [&](const Tensor& x) { return x.Sqrt(site).Reciprocal(site); });
}
Tensor Tensor::Square(Site site) const { return Operand(*this, site) * *this; }

Tensor Tensor::Floor(Site site) const {
  if (!status().ok() || !ir::IsFloat(dtype())) return Another(*this);
  const Tensor t = Trunc(site);
  return Where(*this < t, t - 1.0, t);
}
Tensor Tensor::Ceil(Site site) const {
  if (!status().ok() || !ir::IsFloat(dtype())) return Another(*this);
  const Tensor t = Trunc(site);
  return Where(t < *this, t + 1.0, t);
}
Tensor Tensor::Abs(Site site) const {
  if (!status().ok() || ir::IsUnsigned(dtype()) || dtype() == Dtype::Bool) return Another(*this);
  return Maximum({Neg(site), site});
}

Tensor Tensor::IsNan(Site site) const {
  if (!status().ok()) return *this;
  return Operand(*this, site) != *this;
}
Tensor Tensor::Sign(Site site) const {
  if (!status().ok() || dtype() == Dtype::Bool) return Another(*this);
  const Tensor zero = ScalarLike(*this, dtype(), 0), one = ScalarLike(*this, dtype(), 1);
  // An element that is neither positive nor negative is 0 or NaN. It stays as it is.
  Tensor positive = Where({zero < *this, site}, one, *this);
  if (ir::IsUnsigned(dtype())) return positive;
  return Where({*this < zero, site}, ScalarLike(*this, dtype(), -1), positive).Detach(site);
}
Tensor Tensor::Clip(double low, double high, Site site) const {
  if (!status().ok()) return *this;
  if (!ir::IsFloat(dtype())) {
    if (std::isnan(low) || std::isnan(high))
      return Wrong(*this, "Clip", site, Cat("a bound of ", ir::Name(dtype()), " is NaN"));
    // A bound beyond all integers of the dtype has no effect.
    const ir::IntRange range = ir::RangeOf(dtype());
    auto bound = [&](double v) {
      const ir::Int128 whole = ir::WholeNumber(dtype(), v);
      return Made(*this, Ctx(*this).Int(dtype(), std::clamp(whole, range.min, range.max)), "Clip",
                  site);
    };
    return AtLeast({bound(low), site}).AtMost({bound(high), site});
  }
  return AtLeast({ScalarLike(*this, dtype(), low), site})
      .AtMost({ScalarLike(*this, dtype(), high), site});
}

Tensor Tensor::Relu(Site site) const {
  return BinaryOp({*this, site}, {0, site}, Op::MAX, "Relu", rules::kTieSecond);
}
Tensor Tensor::Tanh(Site site) const {
  return fn::InWide("Tanh", *this, site, [&](const Tensor& x) {
    return (Operand(x, site) * 2.0).Sigmoid(site) * 2.0 - 1.0;
  });
}
Tensor Tensor::Gelu(Site site) const {
  return fn::InWide("Gelu", *this, site, [&](const Tensor& x) {
    const Tensor cube = x.Square(site) * x;
    const double scale = std::sqrt(2 / std::numbers::pi);
    return 0.5 * x * (1.0 + ((x + cube * 0.044715) * scale).Tanh(site));
  });
}

}  // namespace uopd::client
