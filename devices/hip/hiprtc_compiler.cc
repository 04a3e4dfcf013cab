// SPDX-License-Identifier: MIT
#include "devices/hip/hiprtc_compiler.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "devices/gpu/diagnostic.h"

namespace uopd::devices::hip {
namespace {

constexpr std::string_view kProcessorField = ";arch=";

absl::Status HiprtcFails(const HiprtcApi& api, int result, const char* call) {
  return absl::InternalError(absl::StrCat(call, " fails: ", api.hiprtcGetErrorString(result)));
}

}  // namespace

absl::StatusOr<HiprtcApi> LoadHiprtc() {
  std::vector<std::string> files = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                    "libhiprtc.so", "/opt/rocm/lib/libhiprtc.so"};
  if (const char* file = std::getenv("UOPD_HIPRTC"); file != nullptr && *file != 0) files = {file};
  UOPD_ASSIGN(const dl::Library library, dl::Library::Open(files));
  HiprtcApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
  const std::vector<dl::SymbolSlot> slots = {
#include "devices/hip/hiprtc_symbols.def"
  };
#undef UOPD_SYM
  UOPD_TRY(dl::LoadSymbols(library, slots));
  return api;
}

absl::StatusOr<std::shared_ptr<const HiprtcCompiler>> HiprtcCompiler::Create(
    const HiprtcApi& api, const std::string& processor) {
  int major = 0, minor = 0;
  if (const int result = api.hiprtcVersion(&major, &minor); result != 0) {
    return HiprtcFails(api, result, "hiprtcVersion");
  }
  std::vector<std::string> options = {absl::StrCat("--offload-arch=", processor), "-O3",
                                      "-std=c++17", "-ffp-contract=off"};
  std::string toolchain =
      absl::StrCat(kToolchainPrefix, major, ".", minor, std::string(kProcessorField), processor,
                   ";", absl::StrJoin(options.begin() + 1, options.end(), ";"));
  return std::shared_ptr<const HiprtcCompiler>(
      new HiprtcCompiler(api, std::move(options), std::move(toolchain)));
}

absl::StatusOr<std::shared_ptr<const HiprtcCompiler>> HiprtcCompiler::OfToolchain(
    const HiprtcApi& api, const std::string& toolchain) {
  const size_t at = toolchain.find(kProcessorField), end = toolchain.find(';', at + 1);
  if (at == std::string::npos || end == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("No hiprtc has the toolchain ", toolchain));
  }
  const size_t begin = at + kProcessorField.size();
  UOPD_ASSIGN(auto compiler, Create(api, toolchain.substr(begin, end - begin)));
  if (compiler->toolchain() != toolchain) {
    return absl::FailedPreconditionError(absl::StrCat("the toolchain here (", compiler->toolchain(),
                                                      ") is not the one asked for (", toolchain,
                                                      ")"));
  }
  return compiler;
}

absl::Status HiprtcCompiler::Check(int result, const char* call) const {
  return result == 0 ? absl::OkStatus() : HiprtcFails(api_, result, call);
}

absl::StatusOr<std::string> HiprtcCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  HiprtcProgram program = nullptr;
  UOPD_TRY(Check(api_.hiprtcCreateProgram(&program, std::string(source).c_str(), "kernel.hip", 0,
                                          nullptr, nullptr),
                 "hiprtcCreateProgram"));
  const auto destroy = [this](HiprtcProgram* p) { api_.hiprtcDestroyProgram(p); };
  const std::unique_ptr<HiprtcProgram, decltype(destroy)> owner(&program, destroy);
  std::vector<const char*> options;
  for (const std::string& option : options_) options.push_back(option.c_str());
  const int compiled =
      api_.hiprtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t size = 0;
  if (compiled != 0) {
    std::string log;
    if (api_.hiprtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      log.resize(size);
      if (api_.hiprtcGetProgramLog(program, log.data()) != 0) log.clear();
      log.resize(log.find_last_not_of('\0') + 1);
    }
    if (log.empty()) log = api_.hiprtcGetErrorString(compiled);
    return gpu::DoesNotCompile("hiprtc", log, source);
  }
  UOPD_TRY(Check(api_.hiprtcGetCodeSize(program, &size), "hiprtcGetCodeSize"));
  if (size == 0) return absl::InternalError("hiprtc makes no code");
  std::string code(size, '\0');
  UOPD_TRY(Check(api_.hiprtcGetCode(program, code.data()), "hiprtcGetCode"));
  return code;
}

}  // namespace uopd::devices::hip
