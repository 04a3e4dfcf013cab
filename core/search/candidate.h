// SPDX-License-Identifier: MIT
// Candidate: one way to compile a kernel, as a list of opts and the resulting source text.
//
// Plain data without nodes: codegen works in an overlay over the frozen context of the kernel, and
// the overlay is dropped. So candidates of one kernel can be created in parallel.
#pragma once
#include <string>

#include "core/base/digest.h"
#include "core/codegen/codegen.h"
#include "core/search/features.h"
#include "core/search/moves.h"

namespace uopd::search {

// The entry point of every candidate. The name must not depend on the opts: otherwise equal texts
// would not be recognised as equal.
inline constexpr char kCandidateEntry[] = "candidate";

struct Candidate {
  Opts opts;
  codegen::LoweredKernel kernel;  // without the kernel, which is null
  std::string source;             // in the format Target::format
  Digest digest;                  // of the source and the launch dimensions
  Features features{};            // of the program
};

// Errors of codegen::Lower and Renderer::render; RESOURCE_EXHAUSTED if the kernel has more than
// max_lines lines. REQUIRES: no nodes are added to ctx meanwhile.
absl::StatusOr<Candidate> MakeCandidate(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const codegen::Options& options,
                                        size_t max_lines);

}  // namespace uopd::search
