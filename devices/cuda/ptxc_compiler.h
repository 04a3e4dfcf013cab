// SPDX-License-Identifier: MIT
// Compiler of PTX through the program uopd-ptxc: a cubin of one architecture. Needs no GPU and no
// driver. A crash of NVIDIA's compiler ends that program alone.
//
// The program runs from the first text on. Thread-safe; compiles one text at a time. Errors:
// UNAVAILABLE if the program does not start or ends; INTERNAL for a text that does not compile.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "devices/api/compiler.h"

namespace uopd::devices::cuda {

// A running uopd-ptxc, which compiles one text after the other. It starts at the first text, and
// again after it has ended. It ends with the object or with the process.
//
// Both directions are streams. A text is its length in bytes (64 bits, as the machine stores them)
// and its bytes. The answer is a status of 32 bits, 0 for success, and a cubin or a message in the
// form of a text.
//
// A text that crashes the program is given to a new one, once: the crash may be the fault of what
// was compiled before. If it crashes that one too, the text is to blame, and the answer has status
// 128 + N for signal N. A program that SIGKILL or SIGTERM ends was ended from outside; no text is
// blamed for it. Thread-safe; one text at a time.
class PtxcServer {
 public:
  struct Answer {
    uint32_t status = 0;
    std::string bytes;
  };

  PtxcServer(std::string program, std::string arch)
      : program_(std::move(program)), arch_(std::move(arch)) {}
  ~PtxcServer();
  PtxcServer(const PtxcServer&) = delete;
  PtxcServer& operator=(const PtxcServer&) = delete;

  // UNAVAILABLE: the program does not start, ends without an answer, or is ended from outside.
  absl::StatusOr<Answer> Compile(std::string_view text) UOPD_EXCLUDES(mu_);

 private:
  absl::Status Start() UOPD_REQUIRES(mu_);
  // Returns the signal that had ended the program before; 0: none, or one from outside.
  int End() UOPD_REQUIRES(mu_);
  // False: the program has ended.
  bool Exchange(std::string_view text, Answer& answer) UOPD_REQUIRES(mu_);

  const std::string program_, arch_;
  Mutex mu_;
  pid_t pid_ UOPD_GUARDED_BY(mu_) = -1;
  UniqueFd to_ UOPD_GUARDED_BY(mu_), from_ UOPD_GUARDED_BY(mu_);
};

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
