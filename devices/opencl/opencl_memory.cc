// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/api/host/host_heap.h"
#include "devices/opencl/opencl_target.h"

namespace uopd::devices::opencl {
namespace {

// The greatest alignment that every device has: that of its largest type, of 128 bytes.
constexpr ClUint kAlignment = 128;
static_assert(kAlignment >= Buffer::kAlignment);

class SvmMemory final : public RawMemory {
 public:
  SvmMemory(std::shared_ptr<OpenClContext> context, bool fine)
      : context_(std::move(context)),
        fine_(fine),
        flags_(kClMemReadWrite | (fine ? kClMemSvmFineGrainBuffer : 0)) {}

  void* Allocate(size_t bytes) override {
    return context_->api().clSVMAlloc(context_->context(), flags_, bytes, kAlignment);
  }
  void Free(void* data, size_t) override { context_->api().clSVMFree(context_->context(), data); }
  absl::Status Fill(void* data, size_t bytes, std::byte value) override {
    if (fine_) {
      std::memset(data, std::to_integer<int>(value), bytes);
      return absl::OkStatus();
    }
    const OpenClApi& api = context_->api();
    UOPD_ASSIGN(ClQueue * queue, context_->NewQueue());
    absl::Status status = context_->Check(
        "clEnqueueSVMMemFill",
        api.clEnqueueSVMMemFill(queue, data, &value, 1, bytes, 0, nullptr, nullptr));
    if (status.ok()) status = context_->Check("clFinish", api.clFinish(queue));
    api.clReleaseCommandQueue(queue);
    return status;
  }

 private:
  const std::shared_ptr<OpenClContext> context_;
  const bool fine_;  // the host may use the memory at any time
  const ClBits flags_;
};

}  // namespace

OpenClMemoryOptions OpenClMemory::Completed(const OpenClContext& context,
                                            OpenClMemoryOptions options) {
  size_t most = context.Number(kClDeviceGlobalMemSize) / 8 * 7;
  if (IsHostProcessor(context)) most = std::min(most, HostHeap::Completed({}).limit_bytes);
  if (options.limit_bytes == 0 || options.limit_bytes > most) options.limit_bytes = most;
  options.keep_bytes = std::min(options.keep_bytes, options.limit_bytes / 4);
  return options;
}

size_t OpenClMemory::MostBytes(const OpenClContext& context, const OpenClMemoryOptions& completed) {
  const size_t most = context.Number(kClDeviceMaxMemAllocSize);
  return most == 0 ? completed.limit_bytes : std::min(most, completed.limit_bytes);
}

OpenClMemory::OpenClMemory(std::shared_ptr<OpenClContext> context,
                           const OpenClMemoryOptions& options)
    : context_(std::move(context)),
      options_(Completed(*context_, options)),
      most_bytes_(MostBytes(*context_, options_)),
      host_visible_(SharesMemoryWithHost(*context_)),
      pool_(std::make_unique<SvmMemory>(context_, host_visible_),
            {options_.limit_bytes, options_.keep_bytes, options_.pattern}) {}

absl::StatusOr<std::shared_ptr<Buffer>> OpenClMemory::Allocate(std::shared_ptr<Device> device,
                                                               size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::kHostVisible && !host_visible_) {
    return absl::UnimplementedError(absl::StrCat(
        device->info().name, " has no memory that the host can address without a copy"));
  }
  if (bytes > most_bytes_ && bytes <= options_.limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("An allocation of ", bytes, " bytes fails: the largest buffer of ",
                     device->info().name, " has ", most_bytes_, " bytes"));
  }
  UOPD_ASSIGN(const MemoryPool::Block block, pool_.Allocate(bytes));
  return std::make_shared<OpenClBuffer>(std::move(device), bytes, kind, host_visible_, pool_,
                                        block);
}

}  // namespace uopd::devices::opencl
