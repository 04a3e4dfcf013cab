// SPDX-License-Identifier: MIT
// Numbers of fields of TensorProto that several sources use. Internal to the library.
#pragma once
#include <cstdint>

namespace uopd::client::onnx {

inline constexpr uint32_t kFloatData = 4, kInt32Data = 5, kStringData = 6, kInt64Data = 7,
                          kRawData = 9, kDoubleData = 10, kUint64Data = 11;

}  // namespace uopd::client::onnx
