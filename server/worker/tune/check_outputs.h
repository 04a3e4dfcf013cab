// SPDX-License-Identifier: MIT
// Checks whether two runs of a kernel computed the same, up to the order of floating-point sums.
#pragma once
#include <string_view>

#include "core/base/status.h"
#include "core/ir/dtype.h"

namespace uopd::worker {

// Version of the tolerances; part of the environment key of what tuning found.
inline constexpr int kCheckPolicyVersion = 1;

// Integers and bools must be equal. Floats may differ by a tolerance of the dtype, relative to the
// largest finite value of the reference or to 1, whichever is larger (a sum of many terms may
// cancel to nearly nothing). NaNs and infinities must be in the same places. INTERNAL names the
// first element that differs, and both values.
absl::Status CheckOutputs(ir::Dtype dtype, std::string_view reference, std::string_view got);

}  // namespace uopd::worker
