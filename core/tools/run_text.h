// SPDX-License-Identifier: MIT
// RunText: runs steps of the compiler on textual IR. uopd-opt and the golden tests are built on it.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::tools {

// `steps` is a comma-separated list; each step is applied to the result of the previous one:
//   STEP[=VALUE]          a row of passes.cc: rules=NAME, verify=LEVEL, multi, ...
//   PASS[=VALUE]          a pass of codegen alone (core/codegen/pass_table.h), for the target.
//                         VALUE sets what this pass and later ones have to know: opts as below,
//                         `fast_math`, `noopt`, or the number of threads of a block
//   schedule              the kernels of a tensor graph, in order, with their buffers
//   kernel=N              kernel N of those
//   lower[=OPTS]          a kernel as a linear kernel; OPTS as in "UPCAST(0;4)+VECTOR(1;8)",
//                         "noopt" for none
//   render[=FORMAT]       a linear kernel as text: c, llvm, ptx or amdgpu; none: that of the target
//                         (implies lower when given a kernel)
//   expr                  the root as one expression (core/ir/io/render_expr.h)
//   until=PASS            the passes of codegen up to this one, from the one after the last that
//                         was run
//   opts=OPTS             what choose_opts takes, instead of the heuristic's
//   target=ARCH           from here on for another target: sm_90, gfx942, opencl, ...; `gpu`:
//                         blocks of threads and nothing else; `avx512`, `amx`: a CPU with these
//                         instructions. Without it: a CPU with AVX2
//   threads=N             from here on for a CPU with so many threads, instead of one
// A step whose result is not IR must be the last one.
absl::StatusOr<std::string> RunText(std::string_view steps, std::string_view text);

}  // namespace uopd::tools
