// SPDX-License-Identifier: MIT
// Compiler of HIP C++ text through ROCm's libhiprtc: a code object of one processor. Needs no GPU
// and no driver, so processes that only compile use it too.
//
// The text includes no headers and uses no device library. Floating point is IEEE: nothing is
// contracted.
//
// Immutable and thread-safe. Errors: UNAVAILABLE without the library; INTERNAL, with the compiler's
// log, for a text that does not compile, also where the library does not know the processor: only a
// text finds that out.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "devices/api/compiler.h"
#include "devices/dl/symbol_table.h"

namespace uopd::devices::hip {

using HiprtcProgram = struct HiprtcProgramObject*;

struct HiprtcApi {
#define UOPD_SYM UOPD_DL_POINTER
#include "devices/hip/hiprtc_symbols.def"
#undef UOPD_SYM
};

// UOPD_HIPRTC names the file; otherwise the newest of the names that ROCm has given it.
absl::StatusOr<HiprtcApi> LoadHiprtc();

class HiprtcCompiler final : public Compiler {
 public:
  // `processor` is "gfx942".
  static absl::StatusOr<std::shared_ptr<const HiprtcCompiler>> Create(const HiprtcApi& api,
                                                                      const std::string& processor);
  // The compiler that has this toolchain. FAILED_PRECONDITION: the library here is another.
  static absl::StatusOr<std::shared_ptr<const HiprtcCompiler>> OfToolchain(
      const HiprtcApi& api, const std::string& toolchain);

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain. Begins with kToolchainPrefix.
  const std::string& toolchain() const { return toolchain_; }
  static constexpr char kToolchainPrefix[] = "hiprtc-";

 private:
  HiprtcCompiler(const HiprtcApi& api, std::vector<std::string> options, std::string toolchain)
      : api_(api), options_(std::move(options)), toolchain_(std::move(toolchain)) {}

  absl::Status Check(int result, const char* call) const;

  const HiprtcApi api_;
  const std::vector<std::string> options_;
  const std::string toolchain_;
};

}  // namespace uopd::devices::hip
