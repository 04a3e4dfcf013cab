// SPDX-License-Identifier: MIT
#include "devices/cuda/ptxc_compiler.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "devices/gpu/diagnostic.h"
#include "devices/gpu/run_program.h"

namespace uopd::devices::cuda {

std::string PtxcProgram() {
  if (const char* file = std::getenv("UOPD_PTXC"); file != nullptr && *file != 0) return file;
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
  return path.substr(0, path.rfind('/') + 1) + "uopd-ptxc";
}

absl::StatusOr<std::shared_ptr<const PtxcCompiler>> PtxcCompiler::Create(const std::string& program,
                                                                         const std::string& arch) {
  UOPD_ASSIGN(const gpu::ProgramEnd end, gpu::RunProgram(program, {"--version"}, ""));
  if (end.exit_status != 0 || end.output.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "The program ", program, " does not tell its version (exit status ", end.exit_status, ")"));
  }
  std::string toolchain = absl::StrCat(kToolchainPrefix, end.output, ";arch=", arch, ";O3");
  return std::shared_ptr<const PtxcCompiler>(new PtxcCompiler(program, arch, std::move(toolchain)));
}

absl::StatusOr<std::shared_ptr<const PtxcCompiler>> PtxcCompiler::OfToolchain(
    const std::string& program, const std::string& toolchain) {
  constexpr std::string_view kField = ";arch=";
  const size_t at = toolchain.find(kField), end = toolchain.find(';', at + 1);
  if (at == std::string::npos || end == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("No uopd-ptxc has the toolchain ", toolchain));
  }
  const size_t begin = at + kField.size();
  UOPD_ASSIGN(auto compiler, Create(program, toolchain.substr(begin, end - begin)));
  if (compiler->toolchain() != toolchain) {
    return absl::FailedPreconditionError(absl::StrCat("the toolchain here (", compiler->toolchain(),
                                                      ") is not the one asked for (", toolchain,
                                                      ")"));
  }
  return compiler;
}

absl::StatusOr<std::string> PtxcCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  UOPD_ASSIGN(PtxcServer::Answer answer, server_.Compile(source));
  if (answer.status != 0 || answer.bytes.empty()) {
    return gpu::DoesNotCompile(absl::StrCat("uopd-ptxc (status ", answer.status, ")"), answer.bytes,
                               source);
  }
  return std::move(answer.bytes);
}

}  // namespace uopd::devices::cuda
