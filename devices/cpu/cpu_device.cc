// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_device.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/api/host/host_stream.h"
#include "devices/api/host/thread_priority.h"

namespace uopd::devices::cpu {
namespace {

class CpuExecutable final : public HostExecutable {
 public:
  CpuExecutable(std::shared_ptr<CpuDevice> device, const Program& program,
                std::unique_ptr<CpuJit::Code> code)
      : HostExecutable(device, program.entry, program.args),
        cpu_(*device),
        code_(std::move(code)) {}

  absl::Status Run(const LaunchShape& shape, void* const* buffers, const int64_t* vars,
                   const StopFlag& stop) override {
    const KernelEntry entry = code_->entry();
    cpu_.threads().ParallelFor(
        shape.grid[0], [=](int64_t thread) { entry(buffers, vars, thread); }, &stop);
    return absl::OkStatus();
  }

 private:
  CpuDevice& cpu_;  // Executable keeps it open
  const std::unique_ptr<CpuJit::Code> code_;
};

// Processors that this process may run on, which containers set lower than what the machine has.
int UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Two multiply-adds a cycle of whole vectors, at a frequency that no processor reaches.
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
      threads_(this->target().threads, options.spin) {}

ThreadPool& CpuDevice::threads() {
  if (!InBackground()) return threads_;
  MutexLock lock(background_mu_);
  if (background_ == nullptr) {
    background_ = std::make_unique<ThreadPool>(target().threads, spin_, true);
  }
  return *background_;
}

absl::StatusOr<std::shared_ptr<Buffer>> CpuDevice::Allocate(size_t bytes, MemoryKind kind) {
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> CpuDevice::Load(const Program& program) {
  std::unique_ptr<CpuJit::Code> code;
  if (program.format == ProgramFormat::kObject) {
    UOPD_ASSIGN(code, jit_->Load(program.bytes, program.entry));
  } else if (program.format == ProgramFormat::kLlvmIr) {
    UOPD_ASSIGN(const std::string object, compiler_->Compile(program.bytes));
    UOPD_ASSIGN(code, jit_->Load(object, program.entry));
  } else {
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take programs of format ",
                                                 static_cast<int>(program.format), "."));
  }
  auto self = std::static_pointer_cast<CpuDevice>(shared_from_this());
  return std::make_shared<CpuExecutable>(std::move(self), program, std::move(code));
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::NewStream() {
  return std::make_unique<HostStream>(shared_from_this());
}

}  // namespace uopd::devices::cpu
