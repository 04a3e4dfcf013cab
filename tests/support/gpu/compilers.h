// SPDX-License-Identifier: MIT
// Compilers of texts for GPUs that need no GPU. Tests find them on the machine and say by name what
// they skip. UNAVAILABLE: the compiler is not there. INTERNAL, with its messages: it refuses the
// text.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::tests {

// Whether a test may skip after this failure of a compiler: it is not there, or does not know the
// architecture. Never where UOPD_REQUIRE_GPU_COMPILERS is set, as tests/run does.
bool MaySkipCompiler(const absl::Status& failure);

// The cubin of CUDA C for "sm_90" or another architecture, by NVRTC: the library that UOPD_NVRTC
// names, or libnvrtc.so as the loader finds it or in the usual folder of a toolkit.
// INVALID_ARGUMENT: it does not know the architecture.
absl::StatusOr<std::string> CompileCuda(const std::string& text, std::string_view arch);
// What NVRTC says while it compiles the text: registers, spills, advice.
absl::StatusOr<std::string> CudaMessages(const std::string& text, std::string_view arch);
// The cubin of PTX, by uopd-ptxc: the program that UOPD_PTXC names, or the one that is built.
// INVALID_ARGUMENT: it does not know the architecture.
absl::StatusOr<std::string> AssemblePtx(const std::string& text, std::string_view arch);
// What uopd-ptxc says while it compiles the PTX: registers, spills, advice.
absl::StatusOr<std::string> PtxMessages(const std::string& text, std::string_view arch);
// The assembly of HIP C for "gfx942" or another processor, by clang-19, without ROCm's headers and
// libraries.
absl::StatusOr<std::string> CompileHip(const std::string& text, std::string_view arch);
// The assembly of LLVM IR for AMDGPU, for "gfx942" or another processor, by clang-19.
absl::StatusOr<std::string> CompileAmdgpuIr(const std::string& text, std::string_view arch);
// The LLVM IR of OpenCL C 1.2, by clang-19 for SPIR.
absl::StatusOr<std::string> CompileOpenCl(const std::string& text);

}  // namespace uopd::tests
