// SPDX-License-Identifier: MIT
// One way to compile a kernel: its opts and the source text that they lead to.
//
// Plain data. The nodes that codegen made for it are gone: they lived in an overlay over the
// kernel's frozen context, so any number of candidates can be made from one kernel, also in
// parallel.
#pragma once
#include <string>

#include "core/base/digest.h"
#include "core/codegen/codegen.h"
#include "core/search/moves.h"

namespace uopd::search {

// Entry point of every candidate: a name that depended on the opts would hide that two texts are
// the same.
inline constexpr char kCandidateEntry[] = "candidate";

struct Candidate {
  Opts opts;
  codegen::LoweredKernel kernel;  // program is null
  std::string source;             // in Target::format
  Digest digest;                  // of source and launch shape
};

// REQUIRES: ctx does not grow meanwhile. As codegen::Lower and Renderer::render;
// RESOURCE_EXHAUSTED for a program of more than max_lines lines.
absl::StatusOr<Candidate> MakeCandidate(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const codegen::Options& options,
                                        size_t max_lines);

}  // namespace uopd::search
