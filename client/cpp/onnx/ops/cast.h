// SPDX-License-Identifier: MIT
// Conversions of element types, which some ops share. Internal to the library.
#pragma once
#include "client/cpp/onnx/run/call.h"

namespace uopd::client::onnx {

// x with the values of another element type: floats are rounded to the nearest one, half to even
// (those of FLOAT8E8M0 away from zero). What is too large becomes the largest finite value if
// `saturate`, else infinity or NaN. The
// element type of x is `from`.
Tensor ConvertElements(const Tensor& x, const OnnxElementType& from, const OnnxElementType& to,
                       bool saturate);
// The smallest and the largest integer of an integer element type.
struct ElementRange {
  int64_t least = 0, most = 0;
};
ElementRange RangeOfElements(const OnnxElementType& type);
bool IsIntegerType(const OnnxElementType& type);

}  // namespace uopd::client::onnx
