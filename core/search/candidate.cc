// SPDX-License-Identifier: MIT
#include "core/search/candidate.h"

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/render/renderer.h"

namespace uopd::search {

absl::StatusOr<Candidate> MakeCandidate(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const codegen::Options& options,
                                        size_t max_lines) {
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(target.format));
  ir::UOpContext overlay(&ctx);
  Candidate out;
  UOPD_ASSIGN(out.kernel, codegen::Lower(overlay, sink, target, options));
  if (out.kernel.linear.n_src() > max_lines) {
    return absl::ResourceExhaustedError(
        Cat("the kernel has ", out.kernel.linear.n_src(), " lines; the limit is ", max_lines));
  }
  UOPD_ASSIGN(out.source,
              renderer->render({overlay, out.kernel.linear, kCandidateEntry, out.kernel.variables,
                                target, out.kernel.buffers.size()}));
  out.features = FeaturesOf(overlay, out.kernel, target);
  out.kernel.linear = ir::UOp();
  out.opts = out.kernel.opts;
  Hasher hasher;
  hasher.Update(out.source);
  std::string shape;
  out.kernel.launch.Encode(shape);
  hasher.Update(shape);
  out.digest = hasher.Finish();
  return out;
}

}  // namespace uopd::search
