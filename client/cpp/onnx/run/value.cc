// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/value.h"

#include <algorithm>
#include <cstring>

namespace uopd::client {

std::optional<Dtype> OnnxStorageDtype(const OnnxElementType& type) {
  if (type.dtype) return type.dtype;
  if (type.name == "INT4" || type.name == "INT2") return Dtype::I8;
  if (type.name == "UINT4" || type.name == "UINT2") return Dtype::U8;
  if (type.name == "FLOAT8E4M3FNUZ" || type.name == "FLOAT8E5M2FNUZ") return Dtype::F16;
  if (type.name == "FLOAT4E2M1" || type.name == "FLOAT8E8M0") return Dtype::F32;
  return std::nullopt;
}

}  // namespace uopd::client

namespace uopd::client::onnx {
namespace {

uint64_t StoredBits(std::string_view bytes, size_t i, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return bits;
}

}  // namespace

const OnnxElementType* ElementTypeOf(Dtype dtype) {
  for (const OnnxElementType& t : OnnxElementTypes())
    if (t.dtype == dtype) return &t;
  return nullptr;
}

const OnnxElementType* ElementType(std::string_view name) {
  for (const OnnxElementType& t : OnnxElementTypes())
    if (t.name == name) return &t;
  return nullptr;
}

Value ValueOf(Tensor tensor, const OnnxElementType* type) {
  Value v{.kind = Value::Kind::kTensor};
  v.type = type != nullptr ? type : ElementTypeOf(tensor.dtype());
  v.dims = tensor.dims();
  v.tensor = std::move(tensor);
  return v;
}

Value StringValue(const Dims& dims, std::vector<std::string> elements) {
  Value v{.kind = Value::Kind::kTensor, .type = ElementType("STRING"), .dims = dims};
  v.strings = std::make_shared<const std::vector<std::string>>(std::move(elements));
  return v;
}

Value SequenceOf(std::vector<SharedValue> items) {
  Value v{.kind = Value::Kind::kSequence};
  v.items = std::make_shared<const std::vector<SharedValue>>(std::move(items));
  return v;
}

SharedValue Shared(Value value) { return std::make_shared<const Value>(std::move(value)); }

Value KnownInts(const OnnxElementType* type, const Dims& dims, std::span<const int64_t> values) {
  const Dtype dtype = *OnnxStorageDtype(*type);
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  std::string bytes(values.size() * width, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t wrapped = ir::WrapTo(dtype, values[i]);
    std::memcpy(bytes.data() + i * width, &wrapped, width);
  }
  Value v{.kind = Value::Kind::kTensor, .type = type, .dims = dims};
  v.bytes = std::make_shared<const std::string>(std::move(bytes));
  return v;
}

std::vector<int64_t> IntsIn(Dtype dtype, std::string_view bytes) {
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  std::vector<int64_t> out(bytes.size() / width);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = StoredBits(bytes, i, width);
    out[i] = ir::IsFloat(dtype)
                 ? static_cast<int64_t>(ir::WholeNumber(Dtype::I64, ir::DecodeFloat(dtype, bits)))
                 : ir::WrapTo(dtype, static_cast<ir::Int128>(bits));
  }
  return out;
}

std::vector<double> FloatsIn(Dtype dtype, std::string_view bytes) {
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  std::vector<double> out(bytes.size() / width);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = StoredBits(bytes, i, width);
    out[i] = ir::IsFloat(dtype) ? ir::DecodeFloat(dtype, bits)
             : dtype == Dtype::U64
                 ? static_cast<double>(bits)
                 : static_cast<double>(ir::WrapTo(dtype, static_cast<ir::Int128>(bits)));
  }
  return out;
}

}  // namespace uopd::client::onnx
