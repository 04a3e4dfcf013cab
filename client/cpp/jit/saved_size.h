// SPDX-License-Identifier: MIT
// Sizes that are made of variables, as texts of a saved recording (core/ir/io/print.h). Internal to
// the library.
#pragma once
#include <string>
#include <string_view>

#include "core/ir/context.h"

namespace uopd::client {

// REQUIRES: dtype index.
std::string SavedSize(const ir::UOpContext& ctx, ir::UOp size);
// Reads it into ctx. INVALID_ARGUMENT unless it is index arithmetic as sizes are made of. It is
// small and verified then, so that evaluating it takes few steps.
absl::StatusOr<ir::UOp> LoadedSize(ir::UOpContext& ctx, std::string_view text);

}  // namespace uopd::client
