// SPDX-License-Identifier: MIT
// Singular values by one-sided rotations. Columns are rotated in pairs until they are orthogonal:
// their lengths are the singular values then. All n / 2 pairs of one step are rotated at once. From
// step to step the columns move like the players of a round-robin tournament, so that in n - 1
// steps each column meets all others.
//
// The gradient is that of the factors, not that of the rotations: with x = u diag(s) v^T and P =
// u^T dx v (Townsend, "Differentiating the singular value decomposition", 2016)
//   ds = diagonal of P
//   du = u (F * (P S + S P^T)) + (1 - u u^T) dx v S^-1        F_ij = 1 / (s_j^2 - s_i^2) for i !=
//                                                             j, else 0
//   dv = v (F * (S P + P^T S))
#include <bit>
#include <cmath>

#include "client/cpp/ops/common.h"
#include "core/rules/gradient.h"
#include "uopd/linalg.h"

namespace uopd::client::fn {
namespace {

// The halves of the columns, of the matrix and of the product of all rotations.
struct Halves {
  Tensor left, right;
};

Tensor Joined(const Tensor& a, const Tensor& b, Site site) {
  const Tensor parts[] = {a, b};
  return Concat(parts, -1, site).Contiguous(site);
}

// The first column stays, the others go one place on: to the right in the left half, back in the
// right half.
Halves Moved(const Halves& h, Site site) {
  const int64_t n = h.left.dims().back();
  if (n == 1) return h;
  auto part = [&](const Tensor& t, int64_t at, int64_t length) {
    return t.Narrow(-1, at, length, site);
  };
  const Tensor left[] = {part(h.left, 0, 1), part(h.right, 0, 1), part(h.left, 1, n - 2)};
  const Tensor right[] = {part(h.right, 1, n - 1), part(h.left, n - 1, 1)};
  return {Concat(left, -1, site).Contiguous(site), Concat(right, -1, site).Contiguous(site)};
}

Halves Rotated(const Halves& h, const Tensor& c, const Tensor& s, Site site) {
  return {(h.left * c - h.right * s).Contiguous(site), (h.left * s + h.right * c).Contiguous(site)};
}

struct Factors {
  Tensor u, s, v;
};

// A factor as the formulas of the gradient use it: a constant. A gradient of the gradient would
// have to flow through it, and is an error.
Tensor Fixed(const Tensor& t, Site site) {
  return Made(t, Ctx(t).Make(ir::Op::DETACH, t.dtype(), {Value(t)}, {}, rules::kFixed), "Svd",
              site);
}

// The factors of x with their gradients. `of`: the factors, through which none flows; u may have
// more columns than x: these span what is left, in any way, and have no gradient.
Factors WithGradients(const Tensor& x, const Factors& of, Site site) {
  if (!of.u.status().ok()) return of;
  const int64_t m = x.dims()[x.dims().size() - 2], n = x.dims().back();
  const Tensor s = Fixed(of.s, site), v = Fixed(of.v, site);
  const Tensor u = Fixed(of.u, site).Narrow(-1, 0, n, site);
  auto turned = [&](const Tensor& t) { return t.Transpose(-2, -1, site); };
  auto times = [&](const Tensor& a, const Tensor& b) { return a.MatMul({b, site}); };
  const Tensor row = s.Unsqueeze(-2, site), column = s.Unsqueeze(-1, site);
  const Tensor i = IotaLike(x, n, Dtype::I32), same = i.Unsqueeze(-1, site) == i;
  const Tensor gap = Where(same, Like(row, 1), (row - column) * (row + column));
  const Tensor f = Where(same, Like(gap, 0), 1.0 / gap);
  const Tensor xv = times(x, v), p = times(turned(u), xv);
  const Tensor ds = Where(same, p, Like(p, 0)).Sum({-1}, false, site);
  Tensor du = times(u, f * (p * row + column * turned(p)));
  if (m > n) du = du + (xv - times(u, p)) / row;
  if (const int64_t rest = of.u.dims().back() - n; rest > 0) {
    Dims before(du.dims().size(), 0), after = before;
    after.back() = rest;
    du = du.Pad(before, after, 0, site);
  }
  const Tensor dv = times(v, f * (column * p + turned(p) * row));
  return {WithGradientOf(of.u, du, site), WithGradientOf(of.s, ds, site),
          WithGradientOf(of.v, dv, site)};
}

// For a matrix with at least as many rows as columns.
Factors OfTall(const Tensor& x, bool full, Site site) {
  const int64_t n = x.dims().back(), even = n + n % 2;
  const double epsilon = x.dtype() == Dtype::F64 ? 0x1p-52 : 0x1p-23;
  Dims none(x.dims().size(), 0), more = none, square = x.dims();
  more.back() = even - n;
  square[square.size() - 2] = even;
  square.back() = even;
  // A scale without which squares could overflow.
  const Tensor size = x.Abs().Max({-2, -1}, true, site);
  const Tensor scale = Where(size == 0.0, Like(size, 1), size).Contiguous(site);
  const Tensor a = (x / scale).Pad(none, more, 0, site);
  const Tensor i = IotaLike(x, even, Dtype::I32);
  const Tensor id = (i.Unsqueeze(-1, site) == i).Cast(x.dtype(), site).Expand(square, site);
  auto halves = [&](const Tensor& t) {
    return Halves{t.Narrow(-1, 0, even / 2, site).Contiguous(site),
                  t.Narrow(-1, even / 2, even / 2, site).Contiguous(site)};
  };
  Halves columns = halves(a), turns = halves(id);
  // Quadratic convergence sets in after about log2(n) sweeps.
  const int sweeps =
      (x.dtype() == Dtype::F64 ? 6 : 5) + std::bit_width(static_cast<uint64_t>(even));
  for (int64_t step = 0; step < sweeps * std::max<int64_t>(even - 1, 1); ++step) {
    const Tensor alpha = columns.left.Square().Sum({-2}, true, site).Contiguous(site);
    const Tensor beta = columns.right.Square().Sum({-2}, true, site).Contiguous(site);
    const Tensor gamma = (columns.left * columns.right).Sum({-2}, true, site).Contiguous(site);
    // Orthogonal columns, also such that cannot become more so, stay.
    const Tensor done = gamma.Abs() <= (alpha * beta).Sqrt() * (epsilon * 0.5);
    const Tensor zeta = (beta - alpha) / (Where(done, Like(gamma, 1), gamma) * 2.0);
    const Tensor size_z = zeta.Abs(), large = size_z > 1e8;
    const Tensor inner = Where(large, Like(zeta, 0), size_z);
    const Tensor t0 = Where(large, 0.5 / Where(large, size_z, Like(zeta, 1)),
                            1.0 / (inner + (inner * inner + 1.0).Sqrt()));
    const Tensor t = Where(done, Like(zeta, 0), Where(zeta < 0.0, t0.Neg(), t0));
    const Tensor c = (t * t + 1.0).Rsqrt().Contiguous(site), s = (t * c).Contiguous(site);
    columns = Moved(Rotated(columns, c, s, site), site);
    turns = Moved(Rotated(turns, c, s, site), site);
  }
  const Tensor product = Joined(columns.left, columns.right, site);
  const Tensor turn = Joined(turns.left, turns.right, site);
  Tensor lengths = product.Square().Sum({-2}, false, site).Sqrt();
  // The column of the padding was never rotated. It sorts behind columns of length 0.
  if (n != even)
    lengths = Where(turn.Narrow(-2, n, 1, site).Squeeze(-2, site) != 0.0, Like(x, -1), lengths);
  lengths = lengths.Contiguous(site);
  const auto [sorted, order] = lengths.Sort(-1, true, site);
  auto ordered = [&](const Tensor& t) {
    return t.Gather(-1, order.Unsqueeze(-2, site).Expand(t.dims(), site), site);
  };
  const Tensor s = sorted.Narrow(-1, 0, n, site);
  const Tensor v = ordered(turn).Narrow(-2, 0, n, site).Narrow(-1, 0, n, site);
  const Tensor by = ordered(product).Narrow(-1, 0, n, site);
  // Columns without length have no direction. Qr of the others gives one that is orthogonal to
  // them; it keeps the columns that are orthonormal up to their signs, which are those of the
  // diagonal of r.
  const Tensor length = s.Unsqueeze(-2, site), most = s.Narrow(-1, 0, 1, site).Unsqueeze(-2, site);
  const double least = epsilon * static_cast<double>(x.dims()[x.dims().size() - 2]);
  const Tensor empty = length <= most * least;
  const Tensor unit = Where(empty, Like(by, 0), by / Where(empty, Like(by, 1), length));
  const auto [q, r] = Qr(unit.Contiguous(site), !full, site);
  const Tensor j = IotaLike(x, n, Dtype::I32);
  const Tensor diagonal =
      Where(j.Unsqueeze(-1, site) == j, r.Narrow(-2, 0, n, site), Like(r, 0)).Sum({-2}, true, site);
  Tensor sign = Where(diagonal < 0.0, Like(diagonal, -1), Like(diagonal, 1));
  const int64_t rest = q.dims().back() - n;
  if (rest > 0) {
    Dims before(sign.dims().size(), 0), after = before;
    after.back() = rest;
    sign = sign.Pad(before, after, 1, site);
  }
  return {(q * sign).Contiguous(site), (s * scale.Squeeze(-1, site)).Contiguous(site),
          v.Contiguous(site)};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> Svd(const Tensor& x, bool full, Site site) {
  auto all = [](const Tensor& t) { return std::tuple(t, t, t); };
  if (auto error = Refused("Svd", {&x}, site)) return all(*error);
  if (x.rank() < 2 || x.size() == 0)
    return all(Wrong(x, "Svd", site, Cat("shape ", Text(x.dims()), " is no matrix with elements")));
  const Tensor wide = Wide(x, site);
  const bool tall = x.dims()[x.dims().size() - 2] >= x.dims().back();
  const Tensor upright = tall ? wide : wide.Transpose(-2, -1, site);
  auto [u, s, v] = WithGradients(upright, OfTall(upright.Detach(site), full, site), site);
  const Dtype d = FloatOf(x.dtype());
  if (!tall) std::swap(u, v);
  return {u.Cast(d, site), s.Cast(d, site), v.Transpose(-2, -1, site).Cast(d, site)};
}

}  // namespace uopd::client::fn
