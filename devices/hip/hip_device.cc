// SPDX-License-Identifier: MIT
#include "devices/hip/hip_device.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devices/gpu/compile_only_device.h"
#include "devices/hip/hip_target.h"

namespace uopd::devices::hip {
namespace {

absl::StatusOr<std::shared_ptr<const HiprtcCompiler>> OpenHiprtc(const HipOptions& options,
                                                                 const std::string& processor) {
  if (options.hiprtc_api != nullptr) return HiprtcCompiler::Create(*options.hiprtc_api, processor);
  UOPD_ASSIGN(const HiprtcApi api, LoadHiprtc());
  return HiprtcCompiler::Create(api, processor);
}

// The compiler for a processor, and what `target` says of it.
absl::StatusOr<std::shared_ptr<const Compiler>> ChooseCompiler(const HipOptions& options,
                                                               const std::string& processor,
                                                               Target& target) {
  absl::Status own;
  if (!options.hiprtc) {
    auto made = AmdgpuCompiler::Create(options.lld.empty() ? LldProgram() : options.lld, processor);
    if (made.ok()) {
      target.toolchain = (*made)->toolchain();
      return *std::move(made);
    }
    own = made.status();
  }
  auto made = OpenHiprtc(options, processor);
  if (!made.ok() && options.hiprtc) return WithFrame(made.status(), "device.hip_rtc is set");
  if (!made.ok()) {
    return absl::Status(
        own.code(), absl::StrCat(StatusText(own),
                                 "; nor is there another compiler: ", StatusText(made.status())));
  }
  target.format = CodeFormat::kHipC;
  target.toolchain = (*made)->toolchain();
  return *std::move(made);
}

}  // namespace

absl::StatusOr<std::shared_ptr<HipDevice>> HipDevice::Open(const HipOptions& options) {
  HipDriver* driver = options.driver;
  if (driver == nullptr) {
    UOPD_ASSIGN(driver, HipDriver::Process());
  }
  UOPD_ASSIGN(auto context, driver->OpenContext(options.index));
  UOPD_ASSIGN(const HipFacts facts, ReadHipFacts(*driver, options.index));
  Target target = options.maybe_target.value_or(DescribeHip(facts));
  std::shared_ptr<const Compiler> compiler = options.maybe_compiler;
  if (compiler == nullptr) {
    UOPD_ASSIGN(compiler, ChooseCompiler(options, facts.processor, target));
  }
  const GpuDevice::Options shared{.memory_limit_bytes = options.memory_limit_bytes,
                                  .pattern = options.pattern,
                                  .graphs = options.graphs,
                                  .stop_grace = options.stop_grace};
  const size_t limit = LimitOf(shared, facts.total_bytes);
  DeviceInfo info = HipInfo(facts, options.index, limit);
  return std::shared_ptr<HipDevice>(new HipDevice(
      std::move(info), std::move(target), std::move(context), std::move(compiler), limit, shared));
}

absl::StatusOr<std::shared_ptr<Device>> OpenCompileOnly(const HipOptions& options,
                                                        std::string_view processor) {
  const std::optional<HipFacts> facts = KnownHipFacts(processor);
  if (!facts)
    return absl::NotFoundError(
        absl::StrCat("No AMD chip \"", std::string(processor), "\" is known"));
  Target target = DescribeHip(*facts);
  UOPD_ASSIGN(auto compiler, ChooseCompiler(options, facts->processor, target));
  return gpu::CompileOnlyDevice::Open(HipInfo(*facts, options.index, facts->total_bytes),
                                      std::move(target), std::move(compiler));
}

int CountHipDevices() {
  const auto driver = HipDriver::Process();
  return driver.ok() ? (*driver)->device_count() : 0;
}

absl::StatusOr<std::shared_ptr<const Compiler>> HipCompilerFor(std::string_view toolchain) {
  const std::string text(toolchain);
  if (!absl::StartsWith(text, HiprtcCompiler::kToolchainPrefix)) {
    return AmdgpuCompiler::OfToolchain(LldProgram(), text);
  }
  UOPD_ASSIGN(const HiprtcApi api, LoadHiprtc());
  return HiprtcCompiler::OfToolchain(api, text);
}

}  // namespace uopd::devices::hip
