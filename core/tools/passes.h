// SPDX-License-Identifier: MIT
// The table of IR-to-IR passes by name, which uopd-opt and the golden tests run one at a time.
//
// Each pass of core/schedule or core/codegen is one row in passes.cc. A pass of codegen expects the
// result of the passes that precede it in `lower`.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::tools {

struct Pass {
  std::string_view name;   // "unroll"
  std::string_view value;  // describes VALUE of name=VALUE; empty: the pass takes none
  std::string_view doc;
  absl::StatusOr<ir::UOp> (*run)(ir::UOpContext&, ir::UOp, std::string_view value);
};

std::span<const Pass> Passes();

// The target for passes and for `lower`: the defaults, and products of bf16 pairs and of four bytes.
Target DefaultTarget();
// One with blocks, for the passes that need them.
Target BlocksTarget();
// Scheduling options that allow products of this dtype ("bf16" or "f16"), for a device that has an
// instruction for them.
absl::StatusOr<schedule::Options> RoundingOptions(std::string_view dtype);

}  // namespace uopd::tools
