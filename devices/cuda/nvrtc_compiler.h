// SPDX-License-Identifier: MIT
// Compiler of CUDA C++ text through libnvrtc: a cubin of one architecture. Needs no GPU and no
// driver, so processes that only compile use it too.
//
// The text includes no headers: a machine needs the library alone. Arithmetic is IEEE's: products
// and sums are not contracted, subnormals are kept, division and square root are rounded.
// Immutable and thread-safe. Errors: UNAVAILABLE without the library; UNIMPLEMENTED for an
// architecture that it does not know; INTERNAL for a text that does not compile.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "devices/api/compiler.h"
#include "devices/dl/symbol_table.h"

namespace uopd::devices::cuda {

using NvrtcProgram = struct NvrtcProgramObject*;

struct NvrtcApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "devices/cuda/nvrtc_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

// UOPD_NVRTC names the file; otherwise the newest of the names that NVIDIA has given it.
absl::StatusOr<NvrtcApi> LoadNvrtc();

class NvrtcCompiler final : public Compiler {
 public:
  // `capability`: 90 for 9.0. The code is for it, or for the newest architecture that the library
  // knows and whose code the device runs. `specific`: it may use what only chips of exactly this
  // capability have
  // ("sm_90a"). UNIMPLEMENTED: the library makes no such code.
  static absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> Create(const NvrtcApi& api,
                                                                     int capability,
                                                                     bool specific = false);
  // The compiler that has this toolchain. FAILED_PRECONDITION: the library here is another.
  static absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> OfToolchain(
      const NvrtcApi& api, std::string_view toolchain);

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain. Begins with kToolchainPrefix.
  const std::string& toolchain() const { return toolchain_; }
  static constexpr char kToolchainPrefix[] = "nvrtc-";

 private:
  NvrtcCompiler(const NvrtcApi& api, std::vector<std::string> options, std::string toolchain)
      : api_(api), options_(std::move(options)), toolchain_(std::move(toolchain)) {}

  absl::Status Check(int result, const char* call) const;

  const NvrtcApi api_;
  const std::vector<std::string> options_;
  const std::string toolchain_;
};

}  // namespace uopd::devices::cuda
