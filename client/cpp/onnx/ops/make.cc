// SPDX-License-Identifier: MIT
// Ops that make tensors out of numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "client/cpp/onnx/reader.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

constexpr int64_t kMostFolded = 1 << 12;  // elements that the client makes itself

Value KnownFloats(const Dims& dims, const std::vector<float>& values) {
  Value v{.kind = Value::Kind::kTensor, .type = ElementType("FLOAT"), .dims = dims};
  v.bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()),
                                                values.size() * sizeof(float));
  return v;
}

absl::Status RunConstant(Call& c) {
  if (const OnnxAttribute* a = c.Find("value"); a != nullptr && a->Tensor() != nullptr) {
    UOPD_ASSIGN(Value v, c.walk().LoadTensor(*a->Tensor()));
    return c.Out(std::move(v));
  }
  if (const OnnxAttribute* a = c.Find("sparse_value"); a != nullptr) {
    const auto* all = std::get_if<std::vector<OnnxSparseTensor>>(&a->value);
    if (all == nullptr || all->size() != 1) return c.Wrong("sparse_value is no sparse tensor");
    UOPD_ASSIGN(Value v, c.walk().LoadSparse(all->front()));
    return c.Out(std::move(v));
  }
  if (c.Find("value_float") != nullptr)
    return c.Out(KnownFloats({}, {static_cast<float>(c.Float("value_float", 0))}));
  if (const OnnxAttribute* a = c.Find("value_floats"); a != nullptr && a->Floats() != nullptr)
    return c.Out(KnownFloats({static_cast<int64_t>(a->Floats()->size())}, *a->Floats()));
  if (c.Find("value_int") != nullptr) {
    const int64_t v = c.Int("value_int", 0);
    return c.Out(KnownInts(ElementType("INT64"), {}, {&v, 1}));
  }
  if (c.Find("value_ints") != nullptr) {
    const Dims all = c.IntList("value_ints");
    return c.Out(KnownInts(ElementType("INT64"), {static_cast<int64_t>(all.size())}, all));
  }
  return c.Refuse("its value is neither a tensor nor numbers");
}

absl::Status RunConstantOfShape(Call& c) {
  UOPD_ASSIGN(const Dims dims, c.Ints(0));
  if (dims.size() > static_cast<size_t>(ir::kMaxRank)) return c.Wrong("it has too many axes");
  for (const int64_t d : dims)
    if (d < 0) return c.Wrong(Cat("a size is ", d));
  if (!ElementsOf(dims)) return c.Wrong("the result has too many elements");
  Value one = KnownFloats({1}, {0});
  if (const OnnxAttribute* a = c.Find("value"); a != nullptr) {
    if (a->Tensor() == nullptr) return c.Wrong("the attribute value is no tensor");
    UOPD_ASSIGN(one, c.walk().LoadTensor(*a->Tensor()));
    if (ir::Product(one.dims) != 1) return c.Wrong("the attribute value has not one element");
  }
  const Tensor x = c.walk().TensorOf(one).Reshape(Dims(dims.size(), 1));
  Value out = ValueOf(dims.empty() ? x : x.Expand(dims), one.type);
  UOPD_TRY(out.tensor.status());
  if (const int64_t n = ir::Product(dims); n <= kMostFolded && one.bytes != nullptr) {
    std::string all;
    for (int64_t i = 0; i < n; ++i) all += *one.bytes;
    out.bytes = std::make_shared<const std::string>(std::move(all));
  }
  return c.Out(std::move(out));
}

absl::Status RunRange(Call& c) {
  if (!ir::IsFloat(c.DtypeOf(0))) {
    UOPD_ASSIGN(const int64_t begin, c.OneInt(0));
    UOPD_ASSIGN(const int64_t end, c.OneInt(1));
    UOPD_ASSIGN(const int64_t step, c.OneInt(2));
    if (step == 0) return c.Wrong("the step is 0");
    return c.Out(c.client().Arange(begin, end, step, c.DtypeOf(0)));
  }
  UOPD_ASSIGN(const double begin, c.OneFloat(0));
  UOPD_ASSIGN(const double end, c.OneFloat(1));
  UOPD_ASSIGN(const double step, c.OneFloat(2));
  const double count = std::ceil((end - begin) / step);
  if (!(step != 0) || !(count < static_cast<double>(ir::kMaxElements)))
    return c.Wrong("it has no, or too many, elements");
  // A count of -infinity is no int64_t.
  const Tensor numbers =
      c.client().Arange(0, static_cast<int64_t>(std::max(count, 0.0)), 1, Dtype::F64);
  return c.OutAs(0, numbers * step + begin);
}

absl::Status RunEyeLike(Call& c) {
  if (c.Rank(0) != 2) return c.Wrong("the input has not two axes");
  UOPD_ASSIGN(const OnnxElementType* type, c.TypeOf("dtype", c.In(0).type));
  if (!type->dtype) return c.Refuse(Cat("there is no dtype for ", type->name));
  const int64_t rows = c.Shape(0)[0], columns = c.Shape(0)[1];
  const int64_t k = std::clamp(c.Int("k", 0), -rows, columns);
  const Tensor i = c.client().Arange(0, rows, 1, Dtype::I64).Reshape({rows, 1});
  const Tensor j = c.client().Arange(0, columns, 1, Dtype::I64).Reshape({1, columns});
  return c.Out((i + k == j).Cast(*type->dtype));
}

absl::Status RunOneHot(Call& c) {
  UOPD_ASSIGN(const int64_t depth, c.OneInt(1));
  if (depth < 1) return c.Wrong(Cat("the depth is ", depth));
  if (ir::Product(c.Shape(2)) != 2) return c.Wrong("there are not two values");
  const int64_t rank = c.Rank(0) + 1;
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", -1), rank));
  Tensor at = c.X(0).Cast(Dtype::I64);
  at = Where(at < 0, at + depth, at).Unsqueeze(axis);
  Dims along(static_cast<size_t>(rank), 1);
  along[static_cast<size_t>(axis)] = depth;
  const Tensor numbers = c.client().Arange(0, depth, 1, Dtype::I64).Reshape(along);
  const Tensor values = c.X(2).Reshape({2});
  return c.OutAs(2, Where(at == numbers, values.Select(0, 1), values.Select(0, 0)));
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
absl::Status RunWindow(Call& c, double a0, double a1, double a2) {
  UOPD_ASSIGN(const int64_t size, c.OneInt(0));
  UOPD_ASSIGN(const OnnxElementType* type, c.TypeOf("output_datatype", ElementType("FLOAT")));
  if (!type->dtype) return c.Refuse(Cat("there is no dtype for ", type->name));
  const bool periodic = c.Int("periodic", 1) != 0;
  if (size < 0 || size > ir::kMaxElements) return c.Wrong(Cat("the size is ", size));
  const double length = static_cast<double>(std::max<int64_t>(periodic ? size : size - 1, 1));
  const Tensor angle = c.client().Arange(0, size, 1, Dtype::F64) * (2 * std::numbers::pi / length);
  return c.Out((a0 - angle.Cos() * a1 + (angle * 2).Cos() * a2).Cast(*type->dtype));
}

OpRow Window(std::string_view name, double a0, double a1, double a2) {
  return {name, 17, 1, 1, [=](Call& c) { return RunWindow(c, a0, a1, a2); }};
}

}  // namespace

OpRows MakeOps() {
  return {
      {"Constant", 1, 0, 0, RunConstant},
      {"ConstantOfShape", 9, 1, 1, RunConstantOfShape},
      {"Range", 11, 3, 3, RunRange},
      {"EyeLike", 9, 1, 1, RunEyeLike},
      {"OneHot", 9, 3, 3, RunOneHot},
      Window("HannWindow", 0.5, 0.5, 0),
      Window("HammingWindow", 25.0 / 46, 21.0 / 46, 0),
      Window("BlackmanWindow", 0.42, 0.5, 0.08),
  };
}

}  // namespace uopd::client::onnx
