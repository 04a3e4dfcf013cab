// SPDX-License-Identifier: MIT
// Text in, text out: one step of the pipeline run on textual IR. What uopd-opt and the golden tests
// do.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::tools {

// `steps` is a comma-separated list, each applied to the result of the one before:
//   PASS[=VALUE]          a row of passes.cc: rules=NAME, verify=STAGE, simplify, unroll, ...
//   schedule              the kernels of a tensor graph, in order, with their buffers
//   lower[=OPTS]          a kernel as a linear program; OPTS as in "UPCAST(0;4)+VECTOR(1;8)",
//                         "noopt" for none
//   render=c|llvm         a linear program as text (implies lower when given a kernel)
//   expr                  the root as one expression (core/ir/render_expr.h)
// A step that does not give IR must be the last.
absl::StatusOr<std::string> RunText(std::string_view steps, std::string_view text);

}  // namespace uopd::tools
