// SPDX-License-Identifier: MIT
#include "core/render/renderer.h"

#include "core/base/text.h"
#include "core/render/formats.h"

namespace uopd::render {
namespace {

// All renderers.
constexpr const Renderer* kRenderers[] = {&kLlvmIr, &kC,        &kOpenClC, &kCudaC, &kPtx,
                                          &kHipC,   &kAmdgpuIr, &kMetal,   &kLinear};

}  // namespace

std::string Renderer::Key() const { return Cat(name, "=", version); }

absl::StatusOr<const Renderer*> RendererFor(CodeFormat format) {
  for (const Renderer* renderer : kRenderers) {
    if (renderer->format == format) return renderer;
  }
  return absl::UnimplementedError(
      Cat("there is no renderer for code of format ", static_cast<int>(format)));
}

}  // namespace uopd::render
