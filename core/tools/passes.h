// SPDX-License-Identifier: MIT
// The table of IR-to-IR steps outside of codegen by name, which uopd-opt and the golden tests run
// one at a time. The passes of codegen have a table of their own (core/codegen/pass_table.h).
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
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

// The target for passes and for `lower`: the defaults, and products of bf16 pairs and of four
// bytes.
Target DefaultTarget();
// One with blocks of threads and no further instructions.
Target PlainGpuTarget();
// The defaults with the registers of AVX-512; and products of whole tiles besides.
Target Avx512Target();
Target AmxTarget();
// Scheduling options that allow products of this dtype ("bf16", "f16" or "tf32"), for a device that
// has an instruction for them.
absl::StatusOr<schedule::Options> RoundingOptions(std::string_view dtype);

}  // namespace uopd::tools
