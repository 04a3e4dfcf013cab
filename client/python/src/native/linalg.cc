// SPDX-License-Identifier: MIT
// Products and linear algebra: one line each.
#include "uopd/linalg.h"
#include "native/binding.h"
#include "uopd/einsum.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;

}  // namespace

void BindLinalg(Ops op) {
  op("matmul", [](Site s, H a, H b) { return a.tensor().MatMul(Operand(b.tensor(), s)); });
  op("einsum", [](Site s, std::string formula, const std::vector<const Handle*>& all) {
    return fn::Einsum(formula, Tensors(all), s);
  });
  op("tensordot", [](Site s, H a, H b, Dims of_a, Dims of_b) {
    return fn::TensorDot(a.tensor(), b.tensor(), of_a, of_b, s);
  });
  op("tensordot_last",
     [](Site s, H a, H b, int64_t n) { return fn::TensorDotLast(a.tensor(), b.tensor(), n, s); });
  op("outer", [](Site s, H a, H b) { return fn::Outer(a.tensor(), b.tensor(), s); });
  op("norm",
     [](Site s, H x, double p, Dims a, bool k) { return fn::Norm(x.tensor(), p, a, k, s); });
  op("normalize", [](Site s, H x, double p, int64_t a, double e) {
    return fn::Normalize(x.tensor(), p, a, e, s);
  });
  op("trace", [](Site s, H x, int64_t offset) { return fn::Trace(x.tensor(), offset, s); });
  op("matrix_power", [](Site s, H x, int64_t n) { return fn::MatrixPower(x.tensor(), n, s); });
  op("qr", [](Site s, H x) { return fn::Qr(x.tensor(), false, s); });
  op("svd", [](Site s, H x, bool full) { return fn::Svd(x.tensor(), full, s); });
  op("cholesky", [](Site s, H x) { return fn::Cholesky(x.tensor(), s); });
  op("det", [](Site s, H x) { return fn::Det(x.tensor(), s); });
  op("inverse", [](Site s, H x) { return fn::Inverse(x.tensor(), s); });
  op("solve", [](Site s, H a, H b) { return fn::Solve(a.tensor(), b.tensor(), s); });
  op("solve_triangular", [](Site s, H a, H b, bool upper) {
    return fn::SolveTriangular(a.tensor(), b.tensor(), upper, s);
  });
  op("newton_schulz", [](Site s, H x, int64_t n, std::vector<double> c, double e) {
    return fn::NewtonSchulz(x.tensor(), n, c, e, s);
  });
}

}  // namespace uopd::python
