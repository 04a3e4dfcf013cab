// SPDX-License-Identifier: MIT
// Every pass from IR to IR by name: what uopd-opt and the golden tests can run one at a time.
//
// A pass of core/schedule or core/codegen is one row of the table in passes.cc. The passes of
// codegen expect what those before it in `lower` leave; each checks what it needs.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/ir/context.h"

namespace uopd::tools {

struct Pass {
  std::string_view name;   // "unroll"
  std::string_view value;  // what `name=` takes; empty: nothing
  std::string_view doc;
  absl::StatusOr<ir::UOp> (*run)(ir::UOpContext&, ir::UOp, std::string_view value);
};

std::span<const Pass> Passes();

// The opts of a text such as "UPCAST(0;4)+VECTOR(1;8)".
absl::StatusOr<std::vector<codegen::Opt>> ParseOpts(std::string_view text);

}  // namespace uopd::tools
