// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/gpu/gpu_executable.h"
#include "devices/gpu/gpu_recorded_program.h"
#include "devices/gpu/gpu_semaphore.h"
#include "devices/gpu/gpu_stream.h"
#include "devices/gpu/stream_queue.h"

namespace uopd::devices::gpu {
namespace {

GpuHeap::Options HeapOptions(size_t limit_bytes, const GpuDevice::Options& options) {
  GpuHeap::Options out;
  out.limit_bytes = limit_bytes;
  out.keep_bytes = limit_bytes / 2;  // other processes want memory too
  out.pattern = options.pattern;
  return out;
}

}  // namespace

size_t GpuDevice::LimitOf(const Options& options, size_t total_bytes) {
  const size_t most = total_bytes / 10 * 9;
  return options.memory_limit_bytes > 0 ? std::min(most, options.memory_limit_bytes) : most;
}

GpuDevice::GpuDevice(DeviceInfo info, Target target, std::shared_ptr<GpuContext> context,
                     std::shared_ptr<const Compiler> compiler, size_t limit_bytes,
                     const Options& options)
    : Device(std::move(info), std::move(target)),
      context_(context),
      compiler_(std::move(compiler)),
      graphs_(options.graphs && context->api().has_graphs()),
      heap_(context, HeapOptions(limit_bytes, options)),
      words_(std::make_shared<StopWords>(context, options.stop_grace)) {}

absl::StatusOr<std::shared_ptr<Buffer>> GpuDevice::Allocate(size_t bytes, MemoryKind kind) {
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> GpuDevice::Load(const KernelCode& kernel_code) {
  UOPD_TRY(status());
  if (kernel_code.format == CodeFormat::kObject) {
    return GpuExecutable::Load(shared_from_this(), context_, kernel_code.bytes, kernel_code);
  }
  if (kernel_code.format != target().format) {
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take code of format ",
                                                 static_cast<int>(kernel_code.format)));
  }
  UOPD_ASSIGN(const std::string object, compiler_->Compile(kernel_code.bytes));
  return GpuExecutable::Load(shared_from_this(), context_, object, kernel_code);
}

absl::StatusOr<std::unique_ptr<Stream>> GpuDevice::NewStream() {
  UOPD_TRY(status());
  UOPD_ASSIGN(auto queue, StreamQueue::Create(context_));
  return std::make_unique<GpuStream>(shared_from_this(), context_, heap_, words_, std::move(queue));
}

absl::StatusOr<std::shared_ptr<Semaphore>> GpuDevice::NewSemaphore() {
  UOPD_TRY(status());
  return std::make_shared<GpuSemaphore>(context_->driver());
}

absl::StatusOr<std::shared_ptr<const RecordedProgram>> GpuDevice::DoRecord(
    int buffers, std::vector<RecordedLaunch> launches) {
  UOPD_TRY(status());
  if (!graphs_ || launches.empty()) return Device::DoRecord(buffers, std::move(launches));
  return std::make_shared<GpuRecordedProgram>(shared_from_this(), context_, buffers,
                                              std::move(launches));
}

}  // namespace uopd::devices::gpu
