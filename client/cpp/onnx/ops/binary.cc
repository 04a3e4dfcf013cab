// SPDX-License-Identifier: MIT
// Elementwise ops of two and more tensors, which broadcast.
#include "client/cpp/onnx/ops/text.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/math.h"

namespace uopd::client::onnx {
namespace {

// The second operand of operator sets before 7: `broadcast` allows that it stands for some axes of
// the first one, from `axis` on, or for its last ones.
absl::StatusOr<Tensor> OldOperand(Call& c) {
  Tensor b = c.X(1);
  if (c.opset() >= 7) return b;
  const bool broadcast = c.Int("broadcast", 0) != 0;
  if (!broadcast) {
    if (c.Shape(0) != c.Shape(1)) return c.Wrong("shapes differ, without the attribute broadcast");
    c.Int("axis", 0);
    return b;
  }
  const int64_t free = c.Rank(0) - c.Rank(1);
  if (free < 0) return c.Wrong("the second operand has more axes than the first");
  int64_t axis = c.Int("axis", free);
  if (axis < 0) axis += c.Rank(0);
  if (axis < 0 || axis > free) return c.Wrong(Cat("axis ", axis, " is out of range"));
  Dims dims = c.Shape(1);
  dims.resize(static_cast<size_t>(c.Rank(0) - axis), 1);
  return b.Reshape(dims);
}

absl::Status SameTypes(Call& c) {
  for (size_t i = 1; i < c.inputs(); ++i)
    if (c.In(i).type != c.In(0).type) return c.Wrong("its inputs have different element types");
  return absl::OkStatus();
}

using Function = Tensor (*)(const Tensor&, const Tensor&);

// f(a, b) in the dtype of a.
OpRow Binary(std::string_view name, int since, Function f) {
  return {name, since, 2, 2, [f](Call& c) -> absl::Status {
            UOPD_TRY(SameTypes(c));
            UOPD_ASSIGN(const Tensor b, OldOperand(c));
            return c.OutAs(0, f(c.X(0), b));
          }};
}

// f(a, b), which is bool.
OpRow Comparison(std::string_view name, int since, Function f) {
  return {name, since, 2, 2, [f](Call& c) -> absl::Status {
            UOPD_TRY(SameTypes(c));
            UOPD_ASSIGN(const Tensor b, OldOperand(c));
            return c.Out(f(c.X(0), b));
          }};
}

absl::Status RunEqual(Call& c) {
  UOPD_TRY(SameTypes(c));
  if (!c.IsNumbers(0)) return RunEqualStrings(c);
  UOPD_ASSIGN(const Tensor b, OldOperand(c));
  return c.Out(c.X(0) == b);
}

// f of all inputs, one after the other.
OpRow Variadic(std::string_view name, Function f) {
  return {name, 6, 1, kManyInputs, [f](Call& c) -> absl::Status {
            UOPD_TRY(SameTypes(c));
            Tensor out = c.X(0);
            for (size_t i = 1; i < c.inputs(); ++i) out = f(out, c.X(i));
            return c.OutAs(0, out);
          }};
}

absl::Status RunMean(Call& c) {
  Tensor out = c.X(0);
  for (size_t i = 1; i < c.inputs(); ++i) out = out + c.X(i);
  return c.OutAs(0, out / static_cast<double>(c.inputs()));
}

absl::Status RunMod(Call& c) {
  UOPD_TRY(SameTypes(c));
  if (c.Int("fmod", 0) != 0) return c.OutAs(0, fn::Fmod(c.X(0), c.X(1)));
  return c.OutAs(0, c.X(0) % c.X(1));
}

absl::Status RunPow(Call& c) {
  UOPD_ASSIGN(Tensor b, OldOperand(c));
  Tensor a = c.X(0);
  const bool whole_base = !ir::IsFloat(a.dtype()), whole_power = !ir::IsFloat(b.dtype());
  if (whole_base && !whole_power) return c.OutAs(0, a.Cast(Dtype::F64).Pow(b.Cast(Dtype::F64)));
  return c.OutAs(0, a.Pow(a.dtype() == b.dtype() ? b : b.Cast(a.dtype())));
}

absl::Status RunBitShift(Call& c) {
  UOPD_TRY(SameTypes(c));
  const std::string_view direction = c.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return c.Wrong("the attribute direction is neither LEFT nor RIGHT");
  return c.OutAs(0, direction == "LEFT" ? c.X(0) << c.X(1) : c.X(0) >> c.X(1));
}

absl::Status RunWhere(Call& c) {
  if (c.DtypeOf(0) != Dtype::Bool) return c.Wrong("the condition is not bool");
  if (c.In(1).type != c.In(2).type) return c.Wrong("its inputs have different element types");
  return c.OutAs(1, Where(c.X(0), c.X(1), c.X(2)));
}

// NaN stays NaN. The upper limit wins where it is below the lower one.
absl::Status RunClip(Call& c) {
  Tensor x = c.X(0);
  if (c.opset() < 11) {
    const bool low = c.Find("min") != nullptr, high = c.Find("max") != nullptr;
    if (low) x = Where(x < c.Float("min", 0), c.Float("min", 0), x);
    if (high) x = Where(x > c.Float("max", 0), c.Float("max", 0), x);
    return c.OutAs(0, x);
  }
  if (c.Has(1)) x = Where(x < c.X(1), c.X(1), x);
  if (c.Has(2)) x = Where(x > c.X(2), c.X(2), x);
  if (x.dims() != c.Shape(0)) return c.Wrong("a limit is no scalar");
  return c.OutAs(0, x);
}

}  // namespace

OpRows BinaryOps() {
  return {
      Binary("Add", 6, [](const Tensor& a, const Tensor& b) { return a + b; }),
      Binary("Sub", 6, [](const Tensor& a, const Tensor& b) { return a - b; }),
      Binary("Mul", 6, [](const Tensor& a, const Tensor& b) { return a * b; }),
      // Of integers: cut toward zero.
      Binary("Div", 6,
             [](const Tensor& a, const Tensor& b) {
               return ir::IsFloat(a.dtype()) ? a / b : fn::Div(a, b, fn::Rounding::kTrunc);
             }),
      Binary("And", 1, [](const Tensor& a, const Tensor& b) { return a & b; }),
      Binary("Or", 1, [](const Tensor& a, const Tensor& b) { return a | b; }),
      Binary("Xor", 1, [](const Tensor& a, const Tensor& b) { return a ^ b; }),
      Binary("BitwiseAnd", 18, [](const Tensor& a, const Tensor& b) { return a & b; }),
      Binary("BitwiseOr", 18, [](const Tensor& a, const Tensor& b) { return a | b; }),
      Binary("BitwiseXor", 18, [](const Tensor& a, const Tensor& b) { return a ^ b; }),
      {"Equal", 1, 2, 2, RunEqual, kStrings},
      Comparison("Less", 1, [](const Tensor& a, const Tensor& b) { return a < b; }),
      Comparison("Greater", 1, [](const Tensor& a, const Tensor& b) { return a > b; }),
      Comparison("LessOrEqual", 12, [](const Tensor& a, const Tensor& b) { return a <= b; }),
      Comparison("GreaterOrEqual", 12, [](const Tensor& a, const Tensor& b) { return a >= b; }),
      Variadic("Sum", [](const Tensor& a, const Tensor& b) { return a + b; }),
      Variadic("Max", [](const Tensor& a, const Tensor& b) { return a.Maximum(b); }),
      Variadic("Min", [](const Tensor& a, const Tensor& b) { return a.Minimum(b); }),
      {"Mean", 6, 1, kManyInputs, RunMean},
      {"Mod", 10, 2, 2, RunMod},
      {"Pow", 6, 2, 2, RunPow},
      {"BitShift", 11, 2, 2, RunBitShift},
      {"Where", 9, 3, 3, RunWhere},
      {"Clip", 6, 1, 3, RunClip},
  };
}

}  // namespace uopd::client::onnx
