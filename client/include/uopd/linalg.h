// SPDX-License-Identifier: MIT
// Linear algebra on the last two axes; leading axes are batches. Errors and promotion are as in
// tensor.h; integers become f32, f16 and bf16 are computed in f32. Norm, Normalize, Trace,
// MatrixPower and NewtonSchulz take symbolic dimensions; the other functions refuse them.
//
// Factorisations are loops that the graph holds unrolled: QR has min(m, n) steps, SolveTriangular,
// Cholesky and Det n steps, SVD n - 1 steps for each sweep. They are meant for matrices of up to a
// few hundred rows; SVD for a few dozen.
#pragma once
#include <span>
#include <tuple>
#include <utility>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// The p-norm of all elements, or along axes: (sum |x|^p)^(1/p); infinity: the largest |x|; minus
// infinity: the smallest; 0: the number of elements other than 0. The gradient of the 2-norm at 0
// is 0.
Tensor Norm(const Tensor& x, double p = 2, const Dims& axes = {}, bool keep = false,
            Site site = Site::current());
// x / max(norm along the axis, epsilon).
Tensor Normalize(const Tensor& x, double p = 2, int64_t axis = 1, double epsilon = 1e-12,
                 Site site = Site::current());
// The sum of a diagonal.
Tensor Trace(const Tensor& x, int64_t offset = 0, Site site = Site::current());
// The product of n copies of a square matrix; n < 0: of its inverse.
Tensor MatrixPower(const Tensor& x, int64_t n, Site site = Site::current());

// q r = x with orthonormal columns of q and r upper triangular, by reflections: A. S. Householder,
// Unitary triangularization of a nonsymmetric matrix, 1958. q is (m, m) and r (m, n); if `reduced`,
// q is (m, k) and r (k, n) with k = min(m, n). Has gradients where r has no zero on its diagonal.
std::pair<Tensor, Tensor> Qr(const Tensor& x, bool reduced = true, Site site = Site::current());
// x with a x = b, for a triangular matrix a (n, n); elements at the other side of the diagonal do
// not count. b is (n, k), also with leading axes.
Tensor SolveTriangular(const Tensor& a, const Tensor& b, bool upper, Site site = Site::current());
// x with a x = b, by Qr. The result for a singular matrix is not finite, or very large.
Tensor Solve(const Tensor& a, const Tensor& b, Site site = Site::current());
Tensor Inverse(const Tensor& x, Site site = Site::current());
// The lower triangular l with l l^T = x, for symmetric positive definite x; of each pair of
// mirrored elements the lower one counts. NaN for other matrices.
Tensor Cholesky(const Tensor& x, Site site = Site::current());
// The determinant, by Gaussian elimination with row exchanges. The gradient of a singular matrix is
// not right.
Tensor Det(const Tensor& x, Site site = Site::current());
// u diag(s) vt = x, with s sorted from large to small; u (m, k), s (k), vt (k, n) with k = min(m,
// n), or square u and vt with `full`. One-sided rotations: M. R. Hestenes, Inversion of matrices by
// biorthogonalization, 1958. A fixed number of sweeps, enough for matrices of up to 64 columns. The
// gradients are finite if the singular values differ and, for those by u of a matrix that is not
// square, are not 0; the columns that `full` adds have none. A gradient of a gradient is an error.
std::tuple<Tensor, Tensor, Tensor> Svd(const Tensor& x, bool full = false,
                                       Site site = Site::current());
// Makes the singular values of x equal by an odd polynomial c0 x + c1 (x x^T) x + c2 (x x^T)^2 x +
// ..., applied `steps` times after division by the Frobenius norm. The default coefficients are
// those of K. Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024, which
// leave them between about 0.7 and 1.2.
Tensor NewtonSchulz(const Tensor& x, int64_t steps = 5, std::span<const double> coefficients = {},
                    double epsilon = 1e-7, Site site = Site::current());

}  // namespace uopd::client::fn
