// SPDX-License-Identifier: MIT
// Compiler of LLVM IR for AMDGPU: a code object of one processor, by the LLVM that uopd links and
// the linker LLD, which is a program. Needs no GPU and nothing of ROCm.
//
// Floating point is IEEE: nothing is contracted. LLVM aborts the process if it cannot select an
// instruction. So text from outside is never compiled here.
//
// Immutable and thread-safe; calls run in parallel. Errors: UNAVAILABLE if the linker does not
// start, or LLVM does not know the processor; INTERNAL for a text that does not compile.
#pragma once
#include <memory>
#include <string>

#include "devices/api/compiler.h"

namespace uopd::devices::hip {

// The path of LLD: UOPD_LLD, or where Linux distributions have it; the last of these if there is
// none.
std::string LldProgram();

class AmdgpuCompiler final : public Compiler {
 public:
  // `processor` is "gfx942". UNAVAILABLE: LLD does not tell its version, or LLVM does not know the
  // processor.
  static absl::StatusOr<std::shared_ptr<const AmdgpuCompiler>> Create(const std::string& lld,
                                                                      const std::string& processor);
  // The compiler that has this toolchain. FAILED_PRECONDITION: LLVM or LLD is another.
  static absl::StatusOr<std::shared_ptr<const AmdgpuCompiler>> OfToolchain(
      const std::string& lld, const std::string& toolchain);

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain. Begins with kToolchainPrefix.
  const std::string& toolchain() const { return toolchain_; }
  static constexpr char kToolchainPrefix[] = "amdgpu-llvm-";

 private:
  AmdgpuCompiler(std::string lld, std::string processor, std::string toolchain)
      : lld_(std::move(lld)), processor_(std::move(processor)), toolchain_(std::move(toolchain)) {}

  const std::string lld_;
  const std::string processor_;
  const std::string toolchain_;
};

}  // namespace uopd::devices::hip
