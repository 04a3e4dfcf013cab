// SPDX-License-Identifier: MIT
// What the functions of namespace fn share: refusals, and computing in f32 or wider. Internal to
// the library.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "client/cpp/graph/build.h"
#include "uopd/tensor.h"

namespace uopd::client {

// Up to so many pairs of elements are compared all, where there is a way with fewer comparisons and
// more kernels.
inline constexpr double kFewPairs = 1 << 20;

// The friends of Tensor (tensor.h), declared where operations of an Operand and a number find them
// too.
Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator%(Operand a, Operand b);
Tensor operator&(Operand a, Operand b);
Tensor operator|(Operand a, Operand b);
Tensor operator^(Operand a, Operand b);
Tensor operator<<(Operand a, Operand b);
Tensor operator>>(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);

// The sum over `axes` of a * b, whose shapes broadcast. Products and sums of floats under 32 bits
// are f32, in which products are exact, and the result is rounded once: as matrix instructions do.
// In reduce.cc. REQUIRES: both are without error.
Tensor SumOfProducts(const Tensor& a, const Tensor& b, const Dims& axes, Site site);

}  // namespace uopd::client

namespace uopd::client::fn {

inline bool Has(const Tensor& t) { return t.state() != nullptr; }

// The first error among these tensors, or that they belong to different clients. `all` must not
// contain operands that may be empty.
std::optional<Tensor> FirstError(std::string_view what, std::span<const Tensor* const> all,
                                 Site site);
inline std::optional<Tensor> FirstError(std::string_view what,
                                        std::initializer_list<const Tensor*> all, Site site) {
  return FirstError(what, std::span(all.begin(), all.size()), site);
}
// As FirstError, and tensors with symbolic dimensions are refused.
std::optional<Tensor> Refused(std::string_view what, std::initializer_list<const Tensor*> all,
                              Site site);

// The dtype of a function of floats: that of x; f32 for integers and bools.
inline Dtype FloatOf(Dtype d) { return ir::IsFloat(d) ? d : Dtype::F32; }
// f32, or wider if x is.
Tensor Wide(const Tensor& x, Site site);
inline Tensor Like(const Tensor& t, double v) { return ScalarLike(t, t.dtype(), v); }

// f of x as f32 or wider, in the dtype FloatOf(x). So narrow floats are rounded once.
template <class F>
Tensor InWide(std::string_view what, const Tensor& x, Site site, F f) {
  if (auto error = FirstError(what, {&x}, site)) return *error;
  return As(f(Wide(x, site)), FloatOf(x.dtype()), site);
}

// Two operands as tensors of one float dtype of at least 32 bits, whose shapes broadcast.
struct FloatPair {
  std::optional<Tensor> error;
  Tensor a, b;
  Dtype dtype = Dtype::Void;  // of the result
};
FloatPair FloatPairOf(std::string_view what, Operand a, Operand b);
// f(a, b) in the dtype of the result.
template <class F>
Tensor OfPair(std::string_view what, Operand a, Operand b, F f) {
  const FloatPair p = FloatPairOf(what, a, b);
  return p.error ? *p.error : As(f(p.a, p.b), p.dtype, a.site());
}

// `v` with one entry for each of n axes (a single entry is repeated), or nullopt.
std::optional<Dims> PerAxis(const Dims& v, size_t n);
// x padded at both sides of its last axes.
Tensor Padded(const Tensor& x, const Dims& padding, double value, Site site);
// The smallest value of the dtype, which changes no maximum.
Tensor Least(const Tensor& t, Site site);

// exp(off) of what numbers are below their maximum, for sums of such exponentials. The product with
// log2(e) is rounded once, which is an error of |off| units, but of a term exp(off): never half a
// unit of the sum, which is at least 1. Cheaper than Tensor::Exp, and what the daemon looks for in
// attention.
Tensor ExpOfOffset(const Tensor& off);

// x times the normal distribution function: the exact gelu. In error_function.cc. REQUIRES: f32 or
// f64.
Tensor TimesNormal(const Tensor& x);

// The value, with the gradient of `way`, which has its shape and dtype and is not computed for the
// value.
Tensor WithGradientOf(const Tensor& value, const Tensor& way, Site site);
// x where the condition holds, else v. For branches of functions: the gradient of a branch that is
// not taken is 0 times its slope, so its argument has to be one where the slope is finite.
Tensor Guarded(const Tensor& condition, const Tensor& x, double v);
// c[0] + c[1] u + c[2] u^2 + ...
Tensor Polynomial(const Tensor& u, std::span<const double> c);
inline bool Is64(const Tensor& x) { return x.dtype() == Dtype::F64; }
// The one for u's dtype, f32 or f64.
inline Tensor PolynomialOf(const Tensor& u, std::span<const double> f32,
                           std::span<const double> f64) {
  return Polynomial(u, Is64(u) ? f64 : f32);
}
// The sign bit, also of zeros and NaNs. REQUIRES: a float dtype of 16, 32 or 64 bits.
Tensor SignBit(const Tensor& x);
// True everywhere, in the shape of x.
Tensor TrueLike(const Tensor& x);
// 0, 1, 2, ... along the axis, size 1 along all other axes.
Tensor IotaAlong(const Tensor& t, int64_t axis, Dtype dtype = Dtype::I32);

}  // namespace uopd::client::fn
