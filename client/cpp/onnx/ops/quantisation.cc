// SPDX-License-Identifier: MIT
// Quantised numbers: q = round(x / scale) + zero point.
#include <algorithm>

#include "client/cpp/onnx/ops/cast.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/math.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// Scales or zero points as a tensor that broadcasts to x: one for all, one for each position of an
// axis, or one for each block of an axis.
absl::StatusOr<Tensor> ForElements(Call& c, size_t i, int64_t axis, int64_t block) {
  const Tensor t = c.X(i);
  if (t.size() == 1 && t.rank() <= 1) return t.Reshape({});
  if (axis < -c.Rank(0) || axis >= c.Rank(0)) return c.Wrong("the axis is out of range");
  if (axis < 0) axis += c.Rank(0);
  const int64_t size = c.Shape(0)[static_cast<size_t>(axis)];
  if (t.rank() == 1 && block == 0) {
    if (t.size() != size) return c.Wrong("there is not one scale for each position of the axis");
    Dims dims(static_cast<size_t>(c.Rank(0)), 1);
    dims[static_cast<size_t>(axis)] = size;
    return t.Reshape(dims);
  }
  if (block < 1 || t.rank() != c.Rank(0)) return c.Wrong("the scales have a wrong shape");
  const Tensor all = fn::RepeatInterleave(t, std::min(block, std::max<int64_t>(size, 1)), axis);
  UOPD_TRY(all.status());
  if (all.dims()[static_cast<size_t>(axis)] < size) return c.Wrong("the scales have a wrong shape");
  return all.Narrow(axis, 0, size);
}

// Whole numbers (floats) within the range of an integer type.
Tensor WithinType(const Tensor& x, const OnnxElementType& type) {
  const ElementRange r = RangeOfElements(type);
  return x.Clip(static_cast<double>(r.least), static_cast<double>(r.most))
      .Cast(*OnnxStorageDtype(type));
}

absl::Status RunQuantize(Call& c) {
  const int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  const bool saturate = c.Int("saturate", 1) != 0;
  if (const int64_t p = c.Int("precision", 0); p != 0 && p != ElementType("FLOAT")->number)
    return c.Refuse("only the precision FLOAT is supported");
  UOPD_ASSIGN(const OnnxElementType* type, c.TypeOf("output_dtype", ElementType("UINT8")));
  if (c.Has(2)) type = c.In(2).type;
  UOPD_ASSIGN(const Tensor scale, ForElements(c, 1, axis, block));
  const Tensor x = c.X(0).Cast(Dtype::F32) / scale.Cast(Dtype::F32);
  Tensor zero = c.client().Zeros({});
  if (c.Has(2)) {
    UOPD_ASSIGN(zero, ForElements(c, 2, axis, block));
    zero = zero.Cast(Dtype::F32);
  }
  if (IsIntegerType(*type)) return c.Out(ValueOf(WithinType(fn::Round(x) + zero, *type), type));
  const Tensor y = ConvertElements(x + zero, *ElementType("FLOAT"), *type, saturate);
  UOPD_TRY(y.status());
  return c.Out(ValueOf(y, type));
}

absl::Status RunDequantize(Call& c) {
  const int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  UOPD_ASSIGN(const OnnxElementType* type, c.TypeOf("output_dtype", c.In(1).type));
  if (!type->dtype || !ir::IsFloat(*type->dtype)) return c.Wrong("the result is no float");
  UOPD_ASSIGN(const Tensor scale, ForElements(c, 1, axis, block));
  // i32 minus its zero point is exact in whole numbers only.
  const Dtype within = ir::IsFloat(c.DtypeOf(0)) ? Dtype::F32 : Dtype::I32;
  Tensor x = c.X(0).Cast(within);
  if (c.Has(2)) {
    UOPD_ASSIGN(const Tensor zero, ForElements(c, 2, axis, block));
    x = x - zero.Cast(within);
  }
  return c.Out((x.Cast(Dtype::F32) * scale.Cast(Dtype::F32)).Cast(*type->dtype));
}

absl::Status RunDynamicQuantize(Call& c) {
  const OnnxElementType& type = *ElementType("UINT8");
  const Tensor x = c.X(0), low = x.Min().Minimum(0.0), high = x.Max().Maximum(0.0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor zero = WithinType(fn::Round(Where(scale == 0.0, 0.0, low.Neg() / scale)), type);
  const Tensor y = fn::Round(Where(scale == 0.0, 0.0, x / scale)) + zero.Cast(Dtype::F32);
  UOPD_TRY(c.Out(WithinType(y, type)));
  UOPD_TRY(c.Out(scale, 1));
  return c.Out(zero, 2);
}

// One number, or one for each row of the first factor, or for each column of the second.
Tensor ForMatrix(Call& c, size_t i, bool rows) {
  const Tensor t = c.X(i);
  if (t.size() == 1) return t.Reshape({});
  return rows && t.rank() == 1 ? t.Reshape({-1, 1}) : t;
}

absl::Status RunQLinearMatMul(Call& c) {
  const Tensor a = c.X(0).Cast(Dtype::I32) - ForMatrix(c, 2, true).Cast(Dtype::I32);
  const Tensor b = c.X(3).Cast(Dtype::I32) - ForMatrix(c, 5, false).Cast(Dtype::I32);
  const Tensor scale = ForMatrix(c, 1, true).Cast(Dtype::F32) *
                       ForMatrix(c, 4, false).Cast(Dtype::F32) /
                       ForMatrix(c, 6, true).Cast(Dtype::F32);
  const Tensor y =
      fn::Round(a.MatMul(b).Cast(Dtype::F32) * scale) + ForMatrix(c, 7, true).Cast(Dtype::F32);
  return c.Out(ValueOf(WithinType(y, *c.In(7).type), c.In(7).type));
}

}  // namespace

OpRows QuantisationOps() {
  return {
      {"QuantizeLinear", 10, 2, 3, RunQuantize, kAnyType},
      {"DequantizeLinear", 10, 2, 3, RunDequantize, kAnyType},
      {"DynamicQuantizeLinear", 11, 1, 1, RunDynamicQuantize},
      {"QLinearMatMul", 10, 8, 8, RunQLinearMatMul},
  };
}

}  // namespace uopd::client::onnx
