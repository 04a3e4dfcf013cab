// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_device.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/machine/process_limits.h"
#include "devices/api/host/host_stream.h"
#include "devices/api/host/thread_priority.h"
#include "devices/cpu/cpu_baseline.h"
#include "devices/cpu/disassemble.h"
#include "devices/cpu/measure_speeds.h"

namespace uopd::devices::cpu {
namespace {

// Threads of low priority leave the processor to others.
constexpr std::chrono::microseconds kLowSpin(30);

class CpuExecutable final : public HostExecutable {
 public:
  CpuExecutable(std::shared_ptr<CpuDevice> device, const KernelCode& kernel_code,
                std::unique_ptr<CpuJit::Code> code)
      : HostExecutable(device, kernel_code.entry, kernel_code.args),
        cpu_(*device),
        code_(std::move(code)) {}

  absl::Status Run(const LaunchShape& shape, const Arguments& arguments,
                   const StopFlag& stop) override {
    const KernelEntry entry = code_->entry();
    void* const* buffers = arguments.buffers;
    const int64_t* vars = arguments.vars;
    if (shape.shared_bytes > 0) return RunShared(shape, buffers, vars, stop);
    cpu_.threads().ParallelFor(
        shape.grid[0], [=](int64_t thread) { entry(buffers, vars, thread); }, &stop);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Disassemble(size_t max_bytes) const override {
    return cpu::Disassemble(code_->bytes(), cpu_.cpu_compiler().target(), max_bytes);
  }

 private:
  absl::Status RunShared(const LaunchShape& shape, void* const* buffers, const int64_t* vars,
                         const StopFlag& stop) {
    const KernelEntry entry = code_->entry();
    std::vector<uint64_t> shared((static_cast<size_t>(shape.shared_bytes) + 7) / 8);
    absl::InlinedVector<void*, 16> with = {shared.data(), buffers[-1]};
    with.insert(with.end(), buffers, buffers + args().buffers);
    cpu_.threads().ParallelFor(
        shape.grid[0], [&](int64_t thread) { entry(with.data() + 2, vars, thread); }, &stop);
    return absl::OkStatus();
  }

  CpuDevice& cpu_;  // Executable keeps the device open
  const std::unique_ptr<CpuJit::Code> code_;
};

// An upper bound: two multiply-adds of whole vectors per cycle, at a frequency that no processor
// reaches.
double PeakOps(const Target& target) {
  constexpr double kHz = 8e9, kOpsPerByte = 4;
  return kHz * kOpsPerByte * std::max(target.vector_bytes, 8) * target.threads;
}

DeviceInfo MakeInfo(const CpuOptions& options, const Target& target) {
  DeviceInfo info;
  info.name = absl::StrCat("CPU:", options.index);
  const auto bytes = static_cast<int64_t>(HostHeap::Completed(options.memory).limit_bytes);
  info.max_buffer_bytes = info.total_bytes = bytes;
  info.peak_ops = PeakOps(target);
  info.runs_inline = !options.background;
  info.baseline = options.baseline;
  info.model = ModelName();
  return info;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CpuDevice>> CpuDevice::Open(const CpuOptions& options) {
  UOPD_ASSIGN(auto compiler, CpuCompiler::Create(MakeCpuTarget(options.features)));
  UOPD_ASSIGN(auto jit, CpuJit::Create());
  Target target =
      Describe(compiler->target(), options.threads > 0 ? options.threads : UsableProcessors());
  DeviceInfo info = MakeInfo(options, target);
  return std::shared_ptr<CpuDevice>(new CpuDevice(std::move(info), std::move(target), options,
                                                  std::move(compiler), std::move(jit)));
}

CpuDevice::CpuDevice(DeviceInfo info, Target target, const CpuOptions& options,
                     std::unique_ptr<CpuCompiler> compiler, std::unique_ptr<CpuJit> jit)
    : Device(std::move(info), std::move(target)),
      heap_(options.memory),
      compiler_(std::move(compiler)),
      jit_(std::move(jit)),
      spin_(options.spin),
      stream_background_(options.background),
      threads_(this->target().threads, options.spin) {}

ThreadPool& CpuDevice::threads() {
  const ThreadPriority priority = PriorityOfThread();
  if (priority == ThreadPriority::kUsual) return threads_;
  MutexLock lock(low_mu_);
  std::unique_ptr<ThreadPool>& pool = low_[priority];
  if (pool == nullptr)
    pool = std::make_unique<ThreadPool>(target().threads, std::min(spin_, kLowSpin), priority);
  return *pool;
}

absl::StatusOr<std::shared_ptr<Buffer>> CpuDevice::Allocate(size_t bytes, MemoryKind kind) {
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> CpuDevice::Load(const KernelCode& kernel_code) {
  std::unique_ptr<CpuJit::Code> code;
  if (kernel_code.format == CodeFormat::kObject) {
    UOPD_ASSIGN(code, jit_->Load(kernel_code.bytes, kernel_code.entry));
  } else if (kernel_code.format == CodeFormat::kLlvmIr) {
    UOPD_ASSIGN(const std::string object, compiler_->Compile(kernel_code.bytes));
    UOPD_ASSIGN(code, jit_->Load(object, kernel_code.entry));
  } else {
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take code of format ",
                                                 static_cast<int>(kernel_code.format)));
  }
  auto self = std::static_pointer_cast<CpuDevice>(shared_from_this());
  return std::make_shared<CpuExecutable>(std::move(self), kernel_code, std::move(code));
}

std::optional<Speeds> CpuDevice::MeasureSpeeds() {
  constexpr int64_t kPart = 8;  // of the memory that the device may have
  return cpu::MeasureSpeeds(target(), threads_, info().total_bytes / kPart);
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::NewStream() {
  return std::make_unique<HostStream>(shared_from_this(), stream_background_);
}

}  // namespace uopd::devices::cpu
