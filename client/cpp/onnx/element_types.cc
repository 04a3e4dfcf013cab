// SPDX-License-Identifier: MIT
// The types of elements of ONNX tensors.
#include <algorithm>

#include "client/cpp/onnx/fields.h"
#include "uopd/onnx.h"

namespace uopd::client {
namespace {

constexpr OnnxElementType kOnnxElementTypes[] = {
    {1, "FLOAT", 32, onnx::kFloatData, Dtype::F32},
    {2, "UINT8", 8, onnx::kInt32Data, Dtype::U8},
    {3, "INT8", 8, onnx::kInt32Data, Dtype::I8},
    {4, "UINT16", 16, onnx::kInt32Data, Dtype::U16},
    {5, "INT16", 16, onnx::kInt32Data, Dtype::I16},
    {6, "INT32", 32, onnx::kInt32Data, Dtype::I32},
    {7, "INT64", 64, onnx::kInt64Data, Dtype::I64},
    {8, "STRING", 0, onnx::kStringData, std::nullopt},
    {9, "BOOL", 8, onnx::kInt32Data, Dtype::Bool},
    {10, "FLOAT16", 16, onnx::kInt32Data, Dtype::F16},
    {11, "DOUBLE", 64, onnx::kDoubleData, Dtype::F64},
    {12, "UINT32", 32, onnx::kUint64Data, Dtype::U32},
    {13, "UINT64", 64, onnx::kUint64Data, Dtype::U64},
    {14, "COMPLEX64", 64, onnx::kFloatData, std::nullopt},
    {15, "COMPLEX128", 128, onnx::kDoubleData, std::nullopt},
    {16, "BFLOAT16", 16, onnx::kInt32Data, Dtype::BF16},
    {17, "FLOAT8E4M3FN", 8, onnx::kInt32Data, Dtype::F8E4M3},
    {18, "FLOAT8E4M3FNUZ", 8, onnx::kInt32Data, std::nullopt},
    {19, "FLOAT8E5M2", 8, onnx::kInt32Data, Dtype::F8E5M2},
    {20, "FLOAT8E5M2FNUZ", 8, onnx::kInt32Data, std::nullopt},
    {21, "UINT4", 4, onnx::kInt32Data, std::nullopt},
    {22, "INT4", 4, onnx::kInt32Data, std::nullopt},
    {23, "FLOAT4E2M1", 4, onnx::kInt32Data, std::nullopt},
    {24, "FLOAT8E8M0", 8, onnx::kInt32Data, std::nullopt},
    {25, "UINT2", 2, onnx::kInt32Data, std::nullopt},
    {26, "INT2", 2, onnx::kInt32Data, std::nullopt},
};

}  // namespace

std::span<const OnnxElementType> OnnxElementTypes() { return kOnnxElementTypes; }

const OnnxElementType* FindOnnxElementType(int64_t number) {
  const auto* const found = std::ranges::find(kOnnxElementTypes, number, &OnnxElementType::number);
  return found == std::end(kOnnxElementTypes) ? nullptr : found;
}

}  // namespace uopd::client
