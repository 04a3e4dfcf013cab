// SPDX-License-Identifier: MIT
// Strings in ops that also take numbers. Internal to the library.
#pragma once
#include "client/cpp/onnx/run/call.h"

namespace uopd::client::onnx {

// Equal, of two inputs with strings.
absl::Status RunEqualStrings(Call& c);

}  // namespace uopd::client::onnx
