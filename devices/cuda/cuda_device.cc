// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devices/cuda/cuda_executable.h"
#include "devices/cuda/cuda_recorded_program.h"
#include "devices/cuda/cuda_semaphore.h"
#include "devices/cuda/cuda_stream.h"
#include "devices/cuda/ptx_compiler.h"
#include "devices/cuda/ptxc_compiler.h"
#include "devices/cuda/stream_queue.h"

namespace uopd::devices::cuda {
namespace {

absl::StatusOr<std::shared_ptr<const NvrtcCompiler>> OpenNvrtc(const CudaOptions& options,
                                                               int capability) {
  if (options.nvrtc != nullptr) return NvrtcCompiler::Create(*options.nvrtc, capability);
  UOPD_ASSIGN(const NvrtcApi api, LoadNvrtc());
  return NvrtcCompiler::Create(api, capability);
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(const CudaOptions& options) {
  CudaDriver* driver = options.driver;
  if (driver == nullptr) {
    UOPD_ASSIGN(driver, CudaDriver::Process());
  }
  UOPD_ASSIGN(auto context, driver->OpenContext(options.index));
  UOPD_ASSIGN(const CudaFacts facts, ReadCudaFacts(*driver, options.index));
  Target target = DescribeCuda(facts);
  std::shared_ptr<const Compiler> compiler;
  if (!options.ptx) {
    if (auto nvrtc = OpenNvrtc(options, facts.capability); nvrtc.ok()) {
      target.format = CodeFormat::kCudaC;
      target.toolchain = (*nvrtc)->toolchain();
      compiler = *nvrtc;
    }
  }
  if (compiler == nullptr) {
    target.format = CodeFormat::kPtx;
    if (auto ptxc =
            PtxcCompiler::Create(options.ptxc.empty() ? PtxcProgram() : options.ptxc, facts.arch());
        ptxc.ok()) {
      target.toolchain = (*ptxc)->toolchain();
      compiler = *ptxc;
    }
  }
  if (compiler == nullptr) {
    target.toolchain = PtxCompiler::Toolchain(*driver, facts.arch());
    compiler = std::make_shared<PtxCompiler>(context);
  }
  CudaHeap::Options memory;
  memory.limit_bytes = facts.total_bytes / 10 * 9;
  if (options.memory_limit_bytes > 0) {
    memory.limit_bytes = std::min(memory.limit_bytes, options.memory_limit_bytes);
  }
  memory.keep_bytes = memory.limit_bytes / 2;  // other processes want memory too
  memory.poison = options.poison;
  DeviceInfo info = CudaInfo(facts, options.index, memory.limit_bytes);
  return std::shared_ptr<CudaDevice>(new CudaDevice(std::move(info), std::move(target),
                                                    std::move(context), std::move(compiler), memory,
                                                    options));
}

CudaDevice::CudaDevice(DeviceInfo info, Target target, std::shared_ptr<CudaContext> context,
                       std::shared_ptr<const Compiler> compiler, const CudaHeap::Options& memory,
                       const CudaOptions& options)
    : Device(std::move(info), std::move(target)),
      context_(context),
      compiler_(std::move(compiler)),
      graphs_(options.graphs && context->api().has_graphs()),
      heap_(context, memory),
      words_(std::make_shared<StopWords>(context, options.stop_grace)) {}

absl::StatusOr<std::shared_ptr<Buffer>> CudaDevice::Allocate(size_t bytes, MemoryKind kind) {
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> CudaDevice::Load(const KernelCode& kernel_code) {
  UOPD_TRY(status());
  if (kernel_code.format == CodeFormat::kObject) {
    return CudaExecutable::Load(shared_from_this(), context_, kernel_code.bytes, kernel_code);
  }
  if (kernel_code.format != target().format) {
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take code of format ",
                                                 static_cast<int>(kernel_code.format), "."));
  }
  UOPD_ASSIGN(const std::string object, compiler_->Compile(kernel_code.bytes));
  return CudaExecutable::Load(shared_from_this(), context_, object, kernel_code);
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::NewStream() {
  UOPD_TRY(status());
  UOPD_ASSIGN(auto queue, StreamQueue::Create(context_));
  return std::make_unique<CudaStream>(shared_from_this(), context_, heap_, words_,
                                      std::move(queue));
}

absl::StatusOr<std::shared_ptr<Semaphore>> CudaDevice::NewSemaphore() {
  UOPD_TRY(status());
  return std::make_shared<CudaSemaphore>(context_->driver());
}

absl::StatusOr<std::shared_ptr<const RecordedProgram>> CudaDevice::DoRecord(
    int buffers, std::vector<RecordedLaunch> launches) {
  UOPD_TRY(status());
  if (!graphs_ || launches.empty()) return Device::DoRecord(buffers, std::move(launches));
  return std::make_shared<CudaRecordedProgram>(shared_from_this(), context_, buffers,
                                               std::move(launches));
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
    return absl::UnimplementedError("This toolchain needs the device.");
  }
  UOPD_ASSIGN(const NvrtcApi api, LoadNvrtc());
  return NvrtcCompiler::OfToolchain(api, toolchain);
}

}  // namespace uopd::devices::cuda
