// SPDX-License-Identifier: MIT
#include "devices/cuda/nvrtc_compiler.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "devices/gpu/diagnostic.h"

namespace uopd::devices::cuda {
namespace {

constexpr char kArchField[] = "arch=sm_";

absl::Status Fails(const NvrtcApi& api, int result, const char* call) {
  return absl::InternalError(absl::StrCat(call, " fails: ", api.nvrtcGetErrorString(result)));
}

// The architectures that the library compiles for, as 90 for 9.0. Empty: it does not say.
std::vector<int> Supported(const NvrtcApi& api) {
  int n = 0;
  if (api.nvrtcGetNumSupportedArchs == nullptr || api.nvrtcGetSupportedArchs == nullptr ||
      api.nvrtcGetNumSupportedArchs(&n) != 0 || n < 1) {
    return {};
  }
  std::vector<int> out(static_cast<size_t>(n));
  if (api.nvrtcGetSupportedArchs(out.data()) != 0) return {};
  return out;
}

}  // namespace

absl::StatusOr<NvrtcApi> LoadNvrtc() {
  std::vector<std::string> files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                    "libnvrtc.so"};
  if (const char* file = std::getenv("UOPD_NVRTC"); file != nullptr && *file != 0) files = {file};
  UOPD_ASSIGN(const dl::Library library, dl::Library::Open(files));
  NvrtcApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
#define UOPD_SYM_OPT UOPD_DL_OPTIONAL
  const std::vector<dl::SymbolSlot> slots = {
#include "devices/cuda/nvrtc_symbols.def"
  };
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  UOPD_TRY(dl::LoadSymbols(library, slots));
  return api;
}

absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> NvrtcCompiler::Create(const NvrtcApi& api,
                                                                           int capability,
                                                                           bool specific) {
  int major = 0, minor = 0;
  if (const int result = api.nvrtcVersion(&major, &minor); result != 0) {
    return Fails(api, result, "nvrtcVersion");
  }
  // A device runs the code of every older architecture with its major number.
  const std::vector<int> known = Supported(api);
  int arch = known.empty() ? capability : 0;
  for (const int k : known) {
    if (k / 10 == capability / 10 && k <= capability) arch = std::max(arch, k);
  }
  if (arch == 0 || (specific && arch != capability)) {
    return absl::UnimplementedError(absl::StrCat(
        "NVRTC ", major, ".", minor, " makes no code for sm_", capability, specific ? "a" : ""));
  }
  const std::string name = absl::StrCat(arch, specific ? "a" : "");
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=sm_", name),
                                      "--std=c++17",
                                      "--fmad=false",
                                      "--ftz=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true",
                                      "-default-device"};
  // Fewer built-in declarations, none of which our texts use.
  if (std::pair(major, minor) >= std::pair(12, 4)) options.emplace_back("--minimal");
  std::string toolchain = absl::StrCat(kToolchainPrefix, major, ".", minor, ";", kArchField, name,
                                       ";", absl::StrJoin(options.begin() + 1, options.end(), ";"));
  return std::shared_ptr<const NvrtcCompiler>(
      new NvrtcCompiler(api, std::move(options), std::move(toolchain)));
}

absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> NvrtcCompiler::OfToolchain(
    const NvrtcApi& api, std::string_view toolchain) {
  int capability = 0;
  bool specific = false;
  const std::string text(toolchain);
  for (const absl::string_view field : absl::StrSplit(text, ';')) {
    if (!absl::StartsWith(field, kArchField)) continue;
    absl::string_view number = field.substr(sizeof kArchField - 1);
    specific = absl::ConsumeSuffix(&number, "a");
    if (!absl::SimpleAtoi(number, &capability)) break;
  }
  if (capability == 0) {
    return absl::InvalidArgumentError(absl::StrCat("No NVRTC has the toolchain ", text));
  }
  UOPD_ASSIGN(auto compiler, Create(api, capability, specific));
  if (compiler->toolchain() != text) {
    return absl::FailedPreconditionError(absl::StrCat("the toolchain here (", compiler->toolchain(),
                                                      ") is not the one asked for (", text, ")"));
  }
  return compiler;
}

absl::Status NvrtcCompiler::Check(int result, const char* call) const {
  return result == 0 ? absl::OkStatus() : Fails(api_, result, call);
}

absl::StatusOr<std::string> NvrtcCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  NvrtcProgram program = nullptr;
  UOPD_TRY(Check(api_.nvrtcCreateProgram(&program, std::string(source).c_str(), "kernel.cu", 0,
                                         nullptr, nullptr),
                 "nvrtcCreateProgram"));
  const auto destroy = [this](NvrtcProgram* p) { api_.nvrtcDestroyProgram(p); };
  const std::unique_ptr<NvrtcProgram, decltype(destroy)> owner(&program, destroy);
  std::vector<const char*> options;
  for (const std::string& option : options_) options.push_back(option.c_str());
  const int compiled =
      api_.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (compiled != 0) {
    size_t size = 0;
    std::string log;
    if (api_.nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      log.resize(size);
      if (api_.nvrtcGetProgramLog(program, log.data()) != 0) log.clear();
      log.resize(log.find_last_not_of('\0') + 1);
    }
    if (log.empty()) log = api_.nvrtcGetErrorString(compiled);
    return gpu::DoesNotCompile("NVRTC", log, source);
  }
  size_t size = 0;
  UOPD_TRY(Check(api_.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize"));
  if (size == 0) return absl::InternalError("NVRTC makes no code");
  std::string cubin(size, '\0');
  UOPD_TRY(Check(api_.nvrtcGetCUBIN(program, cubin.data()), "nvrtcGetCUBIN"));
  return cubin;
}

}  // namespace uopd::devices::cuda
