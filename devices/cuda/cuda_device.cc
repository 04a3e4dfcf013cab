// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devices/cuda/cuda_target.h"
#include "devices/cuda/ptx_compiler.h"
#include "devices/cuda/ptxc_compiler.h"
#include "devices/gpu/compile_only_device.h"

namespace uopd::devices::cuda {
namespace {

absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> OpenNvrtc(const CudaOptions& options,
                                                               const CudaFacts& facts) {
  if (options.nvrtc != nullptr)
    return NvrtcCompiler::Create(*options.nvrtc, facts.capability, facts.specific);
  UOPD_ASSIGN(const NvrtcApi api, LoadNvrtc());
  return NvrtcCompiler::Create(api, facts.capability, facts.specific);
}

// The compiler that needs no driver, and what `target` says of it. Null: none is found; the format
// is PTX then.
std::shared_ptr<const Compiler> CompilerWithoutDriver(const CudaOptions& options,
                                                      const CudaFacts& facts, Target& target) {
  if (!options.ptx) {
    if (auto nvrtc = OpenNvrtc(options, facts); nvrtc.ok()) {
      target.format = CodeFormat::kCudaC;
      target.toolchain = (*nvrtc)->toolchain();
      return *std::move(nvrtc);
    }
  }
  target.format = CodeFormat::kPtx;
  auto ptxc =
      PtxcCompiler::Create(options.ptxc.empty() ? PtxcProgram() : options.ptxc, facts.arch());
  if (!ptxc.ok()) return nullptr;
  target.toolchain = (*ptxc)->toolchain();
  return *std::move(ptxc);
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(const CudaOptions& options) {
  CudaDriver* driver = options.driver;
  if (driver == nullptr) {
    UOPD_ASSIGN(driver, CudaDriver::Process());
  }
  UOPD_ASSIGN(auto context, driver->OpenContext(options.index));
  UOPD_ASSIGN(CudaFacts facts, ReadCudaFacts(*driver, options.index));
  facts.specific = options.specific && facts.capability == kSpecificCapability;
  Target target = DescribeCuda(facts);
  target.bulk_copies = target.bulk_copies && static_cast<bool>(driver->api().EncodeTensorMap);
  std::shared_ptr<const Compiler> compiler = CompilerWithoutDriver(options, facts, target);
  if (compiler == nullptr) {
    target.toolchain = PtxCompiler::Toolchain(*driver, facts.arch());
    compiler = std::make_shared<PtxCompiler>(*driver, context);
  }
  const GpuDevice::Options shared{.memory_limit_bytes = options.memory_limit_bytes,
                                  .pattern = options.pattern,
                                  .graphs = options.graphs,
                                  .stop_grace = options.stop_grace};
  const size_t limit = LimitOf(shared, facts.total_bytes);
  DeviceInfo info = CudaInfo(facts, options.index, limit);
  return std::shared_ptr<CudaDevice>(new CudaDevice(
      std::move(info), std::move(target), std::move(context), std::move(compiler), limit, shared));
}

absl::StatusOr<std::shared_ptr<Device>> OpenCompileOnly(const CudaOptions& options,
                                                        std::string_view arch) {
  const std::optional<CudaFacts> facts = KnownCudaFacts(arch);
  if (!facts)
    return absl::NotFoundError(absl::StrCat("No NVIDIA chip \"", std::string(arch), "\" is known"));
  Target target = DescribeCuda(*facts);
  auto compiler = CompilerWithoutDriver(options, *facts, target);
  if (compiler == nullptr) return absl::UnavailableError("Neither libnvrtc nor uopd-ptxc is found");
  return gpu::CompileOnlyDevice::Open(CudaInfo(*facts, options.index, facts->total_bytes),
                                      std::move(target), std::move(compiler));
}

int CountCudaDevices() {
  const auto driver = CudaDriver::Process();
  return driver.ok() ? (*driver)->device_count() : 0;
}

absl::StatusOr<std::shared_ptr<const Compiler>> CudaCompilerFor(std::string_view toolchain) {
  const std::string text(toolchain);
  if (absl::StartsWith(text, PtxcCompiler::kToolchainPrefix)) {
    return PtxcCompiler::OfToolchain(PtxcProgram(), text);
  }
  if (!absl::StartsWith(text, NvrtcCompiler::kToolchainPrefix)) {
    return absl::UnimplementedError("This toolchain needs the device");
  }
  UOPD_ASSIGN(const NvrtcApi api, LoadNvrtc());
  return NvrtcCompiler::OfToolchain(api, toolchain);
}

}  // namespace uopd::devices::cuda
