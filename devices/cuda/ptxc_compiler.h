// SPDX-License-Identifier: MIT
// Compiler of PTX through the program uopd-ptxc: a cubin of one architecture. Needs no GPU and no
// driver. A crash of NVIDIA's compiler ends that program alone.
//
// The program runs from the first text on. Thread-safe; compiles one text at a time. Errors: UNAVAILABLE if the program
// does not start or ends; INTERNAL for a text that does not compile.
#pragma once
#include <memory>
#include <string>

#include "devices/api/compiler.h"
#include "devices/cuda/ptxc_server.h"

namespace uopd::devices::cuda {

// UOPD_PTXC, or uopd-ptxc beside the program that runs.
std::string PtxcProgram();

class PtxcCompiler final : public Compiler {
 public:
  // UNAVAILABLE: the program does not start, or does not tell its version.
  static absl::StatusOr<std::shared_ptr<const PtxcCompiler>> Create(const std::string& program,
                                                                    const std::string& arch);
  // The compiler that has this toolchain. FAILED_PRECONDITION: the program here is another.
  static absl::StatusOr<std::shared_ptr<const PtxcCompiler>> OfToolchain(
      const std::string& program, const std::string& toolchain);

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain. Begins with kToolchainPrefix.
  const std::string& toolchain() const { return toolchain_; }
  static constexpr char kToolchainPrefix[] = "ptxc-";

 private:
  PtxcCompiler(const std::string& program, const std::string& arch, std::string toolchain)
      : server_(program, arch), toolchain_(std::move(toolchain)) {}

  mutable PtxcServer server_;
  const std::string toolchain_;
};

}  // namespace uopd::devices::cuda
