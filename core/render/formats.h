// SPDX-License-Identifier: MIT
// The renderers: one for each format of text. Stateless, without a toolchain. UNIMPLEMENTED names
// an op that has no rendering.
#pragma once
#include "core/render/renderer.h"

namespace uopd::render {

// Renders a linear kernel as LLVM IR text for devices/cpu. Does not link LLVM.
//
// A module with one external function: define void @NAME(ptr %buffers, ptr %vars, i64 %thread).
//   %buffers  an array of pointers, by PARAM slot; %buffers[-1] points to the stop word, an i32;
//             %buffers[-2] to the arrays that the threads of the launch share (BUFFER {LOCAL}), 16
//             bytes an element, all zeros when the launch begins
//   %vars     an array of i64, in the order of `variables`
//   %thread   the value of SPECIAL {THREAD}
// A loop that polls (docs/ir_linear.md) returns from the function if the stop word is not 0, and so
// does a thread that waits for another one. Threads wait for lower numbers only. UNIMPLEMENTED
// names an op that has no rendering.
absl::StatusOr<std::string> RenderLlvmIr(ir::UOpContext& ctx, ir::UOp linear, std::string_view name,
                                         std::span<const std::string> variables);

inline constexpr Renderer kLlvmIr{CodeFormat::kLlvmIr, "llvm_ir", 3, [](const Request& r) {
                                    return RenderLlvmIr(r.ctx, r.linear, r.name, r.variables);
                                  }};

// Renders a linear kernel for blocks of threads (docs/ir_linear.md, "Blocks") as LLVM IR text for
// AMDGPU. Does not link LLVM.
//
// A module with one kernel:
//   define protected amdgpu_kernel void @NAME(ptr addrspace(1) %b0, ..., i64 %var0, ...,
//                                             ptr addrspace(1) %stop)
// with one pointer for each slot, one i64 for each variable, and the pointer to the stop word, an
// i32. Every argument has 8 bytes. Shared arrays are part of the kernel: a launch adds no shared
// memory.
//
// In kernels whose threads wait for each other, or exchange values, all threads of a block poll
// together. UNIMPLEMENTED names an op that has no rendering.
absl::StatusOr<std::string> RenderAmdgpuIr(const Request& request);

inline constexpr Renderer kAmdgpuIr{CodeFormat::kAmdgpuIr, "amdgpu_ir", 1, RenderAmdgpuIr};

// Renders a linear kernel as C, for people to read: DEBUG=4 and uopd-opt show it.
//
// A C11 translation unit with one function, with the ABI of kLlvmIr, polls included. Vectors are
// arrays with loops over their lanes. gcc -O2 compiles it.
absl::StatusOr<std::string> RenderC(ir::UOpContext& ctx, ir::UOp linear, std::string_view name,
                                    std::span<const std::string> variables);

inline constexpr Renderer kC{CodeFormat::kC, "c", 2, [](const Request& r) {
                               return RenderC(r.ctx, r.linear, r.name, r.variables);
                             }};

// Renders a linear kernel for blocks as OpenCL C 1.2.
//
// One kernel function with the parameters of docs/ir_linear.md. f16 is loaded and stored as bits
// and converted by vload_half and vstore_half, so that no extension is needed. UNIMPLEMENTED:
// SHUFFLE and MMA.
absl::StatusOr<std::string> RenderOpenClC(const Request& request);

inline constexpr Renderer kOpenClC{CodeFormat::kOpenClC, "opencl_c", 1, RenderOpenClC};

// Renders a linear kernel for blocks as CUDA C++ that needs no header, for NVRTC.
//
// One function, extern "C", with the parameters of docs/ir_linear.md. Shared arrays are dynamic
// shared memory: a launch passes LaunchShape::shared_bytes. Compile it with --fmad=false:
// contraction would make results depend on the compiler.
absl::StatusOr<std::string> RenderCudaC(const Request& request);

inline constexpr Renderer kCudaC{CodeFormat::kCudaC, "cuda_c", 1, RenderCudaC};

// Renders a linear kernel for blocks as PTX.
//
// One entry with the parameters of docs/ir_linear.md. It means what the text of kCudaC means.
// Shared arrays are dynamic shared memory: a launch passes LaunchShape::shared_bytes.
// UNIMPLEMENTED: functions of f64 but SQRT and TRUNC.
absl::StatusOr<std::string> RenderPtx(const Request& request);

inline constexpr Renderer kPtx{CodeFormat::kPtx, "ptx", 1, RenderPtx};

// Renders a linear kernel for blocks as HIP C++ that needs neither headers nor device libraries,
// for clang.
//
// One function, extern "C", with the parameters of docs/ir_linear.md. Compile it with
// -ffp-contract=off. UNIMPLEMENTED: functions of the math library of f64 but fma, sqrt and trunc.
absl::StatusOr<std::string> RenderHipC(const Request& request);

inline constexpr Renderer kHipC{CodeFormat::kHipC, "hip_c", 1, RenderHipC};

// Renders a linear kernel for blocks as Metal.
//
// One kernel function with the parameters of docs/ir_linear.md; each variable is a constant of 64
// bits. No device of this project takes it yet. UNIMPLEMENTED: MMA, and SHUFFLE of 64 bits.
absl::StatusOr<std::string> RenderMetal(const Request& request);

inline constexpr Renderer kMetal{CodeFormat::kMetal, "metal", 1, RenderMetal};

// Renders a linear kernel as the text of its own lines (core/ir/io/linear_text.h), for devices that
// interpret them.
//
// Renders every kernel: all that may be in a linear kernel has a text. Stateless.
absl::StatusOr<std::string> RenderLinear(const Request& request);

inline constexpr Renderer kLinear{CodeFormat::kLinear, "linear", 1, RenderLinear};

}  // namespace uopd::render
