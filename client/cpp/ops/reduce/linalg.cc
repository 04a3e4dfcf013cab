// SPDX-License-Identifier: MIT
#include "uopd/linalg.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/movement.h"
#include "uopd/reductions.h"

namespace uopd::client::fn {
namespace {

int64_t Rows(const Tensor& x) { return x.dims()[x.dims().size() - 2]; }
int64_t Columns(const Tensor& x) { return x.dims().back(); }

// The error of an operand that is no matrix (or batch of matrices), or, if `square`, no square one.
// NoAnyMatrix takes symbolic sizes. NoMatrix refuses them: for functions that take as many steps as
// there are columns.
std::optional<Tensor> NoAnyMatrix(std::string_view what, const Tensor& x, bool square, Site site) {
  if (auto error = FirstError(what, {&x}, site)) return error;
  if (x.rank() >= 2 && (!square || Rows(x) == Columns(x))) return std::nullopt;
  return Wrong(x, what, site,
               Cat("shape ", Text(x.dims()), " is no ", square ? "square " : "", "matrix"));
}

std::optional<Tensor> NoMatrix(std::string_view what, const Tensor& x, bool square, Site site) {
  if (auto error = Refused(what, {&x}, site)) return error;
  return NoAnyMatrix(what, x, square, site);
}

Tensor Product(const Tensor& a, const Tensor& b, Site site) { return a.MatMul({b, site}); }
Tensor Transposed(const Tensor& x) { return x.Transpose(-2, -1); }

// The n by n identity in the dtype of x.
Tensor Identity(const Tensor& x, ir::UOp n) {
  const Tensor i = IotaOf(x, n, Dtype::I32);
  return (i.Unsqueeze(-1) == i).Cast(x.dtype());
}

}  // namespace

Tensor Norm(const Tensor& x, double p, const Dims& axes, bool keep, Site site) {
  return InWide("Norm", x, site, [&](const Tensor& v) {
    if (std::isinf(p)) return p > 0 ? v.Abs().Max(axes, keep, site) : v.Abs().Min(axes, keep, site);
    if (p == 0) return CountNonzero(v, axes, keep, site).Cast(v.dtype(), site);
    if (p == 1) return v.Abs().Sum(axes, keep, site);
    Tensor sum = p == 2 ? v.Square().Sum(axes, keep, site) : v.Abs().Pow(p).Sum(axes, keep, site);
    if (!sum.status().ok()) return sum;
    // The root has an infinite slope at 0.
    const Tensor none = sum == 0.0, some = Guarded(none.Not(), sum, 1);
    return Where(none, Like(sum, p > 0 ? 0 : INFINITY), p == 2 ? some.Sqrt() : some.Pow(1 / p));
  });
}

Tensor Normalize(const Tensor& x, double p, int64_t axis, double epsilon, Site site) {
  return InWide("Normalize", x, site, [&](const Tensor& v) {
    Tensor norm = Norm(v, p, {axis}, true, site);
    if (!norm.status().ok()) return norm;
    return v / Where(norm < epsilon, Like(norm, epsilon), norm);
  });
}

Tensor Trace(const Tensor& x, int64_t offset, Site site) {
  if (auto error = NoAnyMatrix("Trace", x, false, site)) return *error;
  return Diagonal(x, offset, -2, -1, site).Sum({-1}, false, site);
}

Tensor MatrixPower(const Tensor& x, int64_t n, Site site) {
  if (auto error = NoAnyMatrix("MatrixPower", x, true, site)) return *error;
  if (n < 0) {
    if (n < -INT32_MAX) return Wrong(x, "MatrixPower", site, Cat("a power of ", n));
    return MatrixPower(Inverse(x, site), -n, site);
  }
  if (n == 0) return ExpandTo(Identity(x, ShapeOf(x).back()), SizesOf(x), "MatrixPower", site);
  // By squares: the bits of n from the lowest one on.
  Tensor square = x, out;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) out = Has(out) ? Product(out, square, site).Contiguous(site) : square;
    if (n > 1) square = Product(square, square, site).Contiguous(site);
  }
  return out;
}

std::pair<Tensor, Tensor> Qr(const Tensor& x, bool reduced, Site site) {
  if (auto error = NoMatrix("Qr", x, false, site)) return {*error, *error};
  const int64_t m = Rows(x), n = Columns(x), k = std::min(m, n);
  Tensor r = Wide(x, site), q = Identity(r, Ctx(r).Idx(m));
  if (x.rank() > 2) {
    Dims to = x.dims();
    to.back() = m;
    q = q.Expand(to, site);
  }
  const Tensor row = IotaLike(r, m, Dtype::I32).Unsqueeze(-1, site);  // against (m, 1)
  for (int64_t i = 0; i < k; ++i) {
    // The vector that is reflected to the axis: the rest of column i. Its length is added to the
    // element on the diagonal with the same sign, so that nothing cancels.
    const Tensor column = Where(row < i, Like(r, 0), r.Narrow(-1, i, 1, site));
    const Tensor head = r.Narrow(-2, i, 1, site).Narrow(-1, i, 1, site);
    const Tensor length = Norm(column, 2, {-2}, true, site);
    const Tensor v = column + Where(row == i, Where(head < 0.0, length.Neg(), length), Like(r, 0));
    const Tensor square = v.Square().Sum({-2}, true, site), zero = square == 0.0;
    const Tensor scale = Where(zero, Like(r, 0), 2.0 / Guarded(zero.Not(), square, 1));
    const Tensor w = (v * scale).Contiguous(site), u = v.Contiguous(site);
    r = (r - w * Product(Transposed(u), r, site)).Contiguous(site);
    q = (q - Product(q, u, site) * Transposed(w)).Contiguous(site);
  }
  r = r.Triu(0, site);  // what is left of rounding
  if (reduced) q = q.Narrow(-1, 0, k, site), r = r.Narrow(-2, 0, k, site);
  const Dtype d = FloatOf(x.dtype());
  return {q.Cast(d, site), r.Cast(d, site)};
}

Tensor SolveTriangular(const Tensor& a, const Tensor& b, bool upper, Site site) {
  if (auto error = NoMatrix("SolveTriangular", a, true, site)) return *error;
  if (auto error = Refused("SolveTriangular", {&a, &b}, site)) return *error;
  if (b.rank() < 2 || Rows(b) != Rows(a)) {
    return Wrong(a, "SolveTriangular", site,
                 Cat("shapes ", Text(a.dims()), " and ", Text(b.dims())));
  }
  const Dtype d = FloatOf(ir::Promote(a.dtype(), b.dtype()));
  const Dtype wide = ir::Bits(d) < 32 ? Dtype::F32 : d;
  const Tensor left = upper ? a.Cast(wide, site).Triu(1, site) : a.Cast(wide, site).Tril(-1, site);
  const Tensor diagonal = Diagonal(a.Cast(wide, site), 0, -2, -1, site).Unsqueeze(-1, site);
  // Row by row, from the row with one unknown on; rows that are not solved yet are 0.
  const Tensor right = b.Cast(wide, site);
  const int64_t n = Rows(a);
  const Tensor row = IotaLike(a, n, Dtype::I32).Unsqueeze(-1, site);
  Tensor x = (Operand(right, site) * 0.0) * diagonal;  // the common shape of batches
  if (!x.status().ok()) return x;
  x = Like(x, 0).Expand(x.dims(), site);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = upper ? n - 1 - i : i;
    const Tensor sum = Product(left.Narrow(-2, at, 1, site), x, site);
    const Tensor value = (right.Narrow(-2, at, 1, site) - sum) / diagonal.Narrow(-2, at, 1, site);
    x = Where(row == at, value, x).Contiguous(site);
  }
  return x.Cast(d, site);
}

Tensor Solve(const Tensor& a, const Tensor& b, Site site) {
  if (auto error = NoMatrix("Solve", a, true, site)) return *error;
  if (auto error = Refused("Solve", {&a, &b}, site)) return *error;
  if (b.rank() < 2 || Rows(b) != Rows(a))
    return Wrong(a, "Solve", site, Cat("shapes ", Text(a.dims()), " and ", Text(b.dims())));
  const Dtype d = FloatOf(ir::Promote(a.dtype(), b.dtype()));
  const Dtype wide = ir::Bits(d) < 32 ? Dtype::F32 : d;
  const auto [q, r] = Qr(a.Cast(wide, site), true, site);
  return SolveTriangular(r, Product(Transposed(q), b.Cast(wide, site), site), true, site)
      .Cast(d, site);
}

Tensor Inverse(const Tensor& x, Site site) {
  if (auto error = NoMatrix("Inverse", x, true, site)) return *error;
  return Solve(x, Identity(Wide(x, site), Ctx(x).Idx(Rows(x))), site)
      .Cast(FloatOf(x.dtype()), site);
}

Tensor Cholesky(const Tensor& x, Site site) {
  if (auto error = NoMatrix("Cholesky", x, true, site)) return *error;
  return InWide("Cholesky", x, site, [&](const Tensor& v) {
    const int64_t n = Rows(x);
    if (n == 0) return v;
    Tensor rest = v;
    std::vector<Tensor> columns;
    for (int64_t k = 0; k < n; ++k) {
      // The first column of what is left; its square is taken off the other ones.
      const Tensor column = rest.Narrow(-1, 0, 1, site) /
                            rest.Narrow(-1, 0, 1, site).Narrow(-2, 0, 1, site).Sqrt(site);
      Dims before(x.dims().size(), 0), after = before;
      before[before.size() - 2] = k;
      columns.push_back(column.Pad(before, after, 0, site));
      if (k + 1 == n) break;
      const Tensor below = column.Narrow(-2, 1, n - k - 1, site);
      rest = (rest.Narrow(-2, 1, n - k - 1, site).Narrow(-1, 1, n - k - 1, site) -
              below * Transposed(below))
                 .Contiguous(site);
    }
    return Concat(columns, -1, site);
  });
}

Tensor Det(const Tensor& x, Site site) {
  if (auto error = NoMatrix("Det", x, true, site)) return *error;
  return InWide("Det", x, site, [&](const Tensor& v) {
    Dims batch(x.dims().begin(), x.dims().end() - 2);
    Tensor rest = v, det = Like(v, 1).Expand(batch, site);
    for (int64_t n = Rows(x); n > 0; --n) {
      // The row with the largest element of the first column changes places with the first row.
      const Tensor column = rest.Select(-1, 0, site);
      const Tensor at = column.Abs(site).Argmax(-1, true, site);
      const Tensor chosen = (IotaLike(rest, n, Dtype::I32) == at).Unsqueeze(-1, site);
      const Tensor row = Where(chosen, rest, Like(rest, 0)).Sum({-2}, true, site);
      const Tensor pivot = row.Select(-1, 0, site).Squeeze(-1, site);
      det = det * Where(at.Squeeze(-1, site) == 0, pivot, pivot.Neg(site));
      if (n == 1) break;
      const Tensor exchanged = Where(chosen, rest.Narrow(-2, 0, 1, site), rest);
      const Tensor below = exchanged.Narrow(-2, 1, n - 1, site);
      const Tensor divisor = Guarded(pivot != 0.0, pivot, 1).Unsqueeze(-1, site);
      const Tensor share = below.Narrow(-1, 0, 1, site) / divisor.Unsqueeze(-1, site);
      rest = (below.Narrow(-1, 1, n - 1, site) - share * row.Narrow(-1, 1, n - 1, site))
                 .Contiguous(site);
    }
    return det;
  });
}

Tensor NewtonSchulz(const Tensor& x, int64_t steps, std::span<const double> coefficients,
                    double epsilon, Site site) {
  if (auto error = NoAnyMatrix("NewtonSchulz", x, false, site)) return *error;
  constexpr double kMuon[] = {3.4445, -4.7750, 2.0315};
  const std::span<const double> c = coefficients.empty() ? std::span(kMuon) : coefficients;
  // The product of the shorter axes is the cheaper one.
  const bool tall = Rows(x) > Columns(x);
  return InWide("NewtonSchulz", x, site, [&](const Tensor& v) {
    Tensor y = tall ? Transposed(v) : v;
    y = (y / (Norm(y, 2, {-2, -1}, true, site) + epsilon)).Contiguous(site);
    for (int64_t i = 0; i < steps; ++i) {
      const Tensor square = Product(y, Transposed(y), site).Contiguous(site);
      Tensor power = y, sum = y * c[0];
      for (size_t k = 1; k < c.size(); ++k) {
        power = Product(square, power, site).Contiguous(site);
        sum = sum + power * c[k];
      }
      y = sum.Contiguous(site);
    }
    return tall ? Transposed(y) : y;
  });
}

}  // namespace uopd::client::fn
