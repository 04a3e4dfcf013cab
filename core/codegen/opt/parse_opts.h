// SPDX-License-Identifier: MIT
// Lists of opts as people write them.
#pragma once
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// The opts of "UPCAST(0, 4) LOCAL(1, 16)", as Text(Opt) writes them. Where spaces and commas separate other things, as in a
// list of passes: "UPCAST(0;4)+LOCAL(1;16)". An empty text has no opts. INVALID_ARGUMENT names what is no opt; whether an
// opt applies to a kernel is not checked.
absl::StatusOr<std::vector<Opt>> ParseOpts(std::string_view text);

}  // namespace uopd::codegen
