// SPDX-License-Identifier: MIT
// Renders a linear kernel for blocks as CUDA C++ that needs no header, for NVRTC.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// One function, extern "C", with the parameters of docs/ir_linear.md. Shared arrays are dynamic shared memory: a
// launch passes LaunchShape::shared_bytes. Compile it with --fmad=false: contraction would make results depend
// on the compiler.
absl::StatusOr<std::string> RenderCudaC(const Request& request);

inline constexpr Renderer kCudaC{CodeFormat::kCudaC, "cuda_c", 1, RenderCudaC};

}  // namespace uopd::render
