// SPDX-License-Identifier: MIT
// Ops of known integers, which the client computes: shapes, and what is made of them. Internal to
// the library.
#pragma once
#include <optional>

#include "client/cpp/onnx/run/call.h"

namespace uopd::client::onnx {

// The result of a node whose inputs are all known, few, and integers or bools. nullopt: it is not
// among the ops that are folded, or its rules do not hold here; the op itself then says what is
// wrong.
std::optional<Value> Folded(Call& c);

}  // namespace uopd::client::onnx
