// SPDX-License-Identifier: MIT
// Products of matrices.
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/einsum.h"
#include "uopd/linalg.h"

namespace uopd::client::onnx {
namespace {

absl::Status RunMatMul(Call& c) {
  if (c.In(0).type != c.In(1).type) return c.Wrong("its inputs have different element types");
  return c.OutAs(0, c.X(0).MatMul(c.X(1)));
}

absl::Status RunGemm(Call& c) {
  if (c.Rank(0) != 2 || c.Rank(1) != 2) return c.Wrong("A or B is no matrix");
  Tensor a = c.X(0), b = c.X(1);
  if (c.Int("transA", 0) != 0) a = a.Transpose();
  if (c.Int("transB", 0) != 0) b = b.Transpose();
  const double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (c.opset() < 7) c.Int("broadcast", 0);
  Tensor y = a.MatMul(b);
  const Dims dims = y.dims();
  if (alpha != 1) y = y * alpha;
  if (c.Has(2) && beta != 0) y = y + (beta == 1 ? c.X(2) : c.X(2) * beta);
  if (y.status().ok() && y.dims() != dims) return c.Wrong("C does not broadcast to the product");
  return c.OutAs(0, y);
}

// x minus its zero point: one number, or one for each row (of the first operand) or column.
Tensor MinusZero(Call& c, size_t x, size_t zero, bool rows) {
  Tensor t = c.X(x).Cast(Dtype::I32);
  if (!c.Has(zero)) return t;
  Tensor z = c.X(zero).Cast(Dtype::I32);
  if (z.rank() == 1 && z.size() > 1 && rows) z = z.Reshape({-1, 1});
  if (z.rank() == 1 && z.size() == 1) z = z.Reshape({});
  return t - z;
}

absl::Status RunMatMulInteger(Call& c) {
  return c.Out(MinusZero(c, 0, 2, true).MatMul(MinusZero(c, 1, 3, false)).Cast(Dtype::I32));
}

absl::Status RunEinsum(Call& c) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < c.inputs(); ++i) all.push_back(c.X(i));
  return c.OutAs(0, fn::Einsum(c.String("equation", ""), all));
}

absl::Status RunDet(Call& c) {
  // Elimination is unrolled, a row in some ops.
  constexpr int64_t kNodesOfRow = 8;
  const int64_t rows = c.Rank(0) < 2 ? 0 : c.Shape(0).back();
  UOPD_TRY(c.walk().Charge(kNodesOfRow * rows));
  return c.OutAs(0, fn::Det(c.X(0)));
}

}  // namespace

OpRows MatMulOps() {
  return {
      {"MatMul", 1, 2, 2, RunMatMul},
      {"Gemm", 6, 2, 3, RunGemm},
      {"MatMulInteger", 10, 2, 4, RunMatMulInteger},
      {"Einsum", 12, 1, kManyInputs, RunEinsum},
      {"Det", 11, 1, 1, RunDet},
  };
}

}  // namespace uopd::client::onnx
