// SPDX-License-Identifier: MIT
// Singular values by one-sided rotations. Columns are rotated in pairs until they are orthogonal: their lengths are
// the singular values then. All n / 2 pairs of one step are rotated at once. From step to step the columns move
// like the players of a round-robin tournament, so that in n - 1 steps each column meets all others.
#include <bit>
#include <cmath>

#include "client/cpp/ops/common.h"
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

// The first column stays, the others go one place on: to the right in the left half, back in the right half.
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

// For a matrix with at least as many rows as columns: u, s and v.
std::tuple<Tensor, Tensor, Tensor> OfTall(const Tensor& x, bool full, Site site) {
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
  // Columns without length have no direction. Qr of the others gives one that is orthogonal to them; it keeps the
  // columns that are orthonormal up to their signs, which are those of the diagonal of r.
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
  return {q * sign, s * scale.Squeeze(-1, site), v};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> Svd(const Tensor& x, bool full, Site site) {
  auto all = [](const Tensor& t) { return std::tuple(t, t, t); };
  if (auto error = Refused("Svd", {&x}, site)) return all(*error);
  if (x.rank() < 2 || x.size() == 0)
    return all(Wrong(x, "Svd", site, Cat("shape ", Text(x.dims()), " is no matrix with elements")));
  const Tensor wide = Wide(x, site).Detach(site);
  const bool tall = x.dims()[x.dims().size() - 2] >= x.dims().back();
  auto [u, s, v] = OfTall(tall ? wide : wide.Transpose(-2, -1, site), full, site);
  const Dtype d = FloatOf(x.dtype());
  if (!tall) std::swap(u, v);
  return {u.Cast(d, site), s.Cast(d, site), v.Transpose(-2, -1, site).Cast(d, site)};
}

}  // namespace uopd::client::fn
