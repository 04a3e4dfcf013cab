// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/api/device.h"

namespace uopd::devices::gpu {
namespace {

constexpr size_t kPage = 4096;

size_t WholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Memory on the chip. Its addresses mean nothing to the host.
class ChipMemory final : public RawMemory {
 public:
  explicit ChipMemory(std::shared_ptr<GpuContext> context) : context_(std::move(context)) {}

  void* Allocate(size_t bytes) override {
    if (!context_->Enter()) return nullptr;
    GpuPointer address = 0;
    const GpuOutcome outcome = context_->api().MemAlloc(&address, bytes);
    if (!context_->Check(outcome).ok()) return nullptr;
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  }
  void Free(void* data, size_t) override {
    if (!context_->Enter()) return;
    const GpuOutcome outcome =
        context_->api().MemFree(static_cast<GpuPointer>(reinterpret_cast<uintptr_t>(data)));
    context_->Check(outcome).IgnoreError();
  }
  absl::Status Fill(void* data, size_t bytes, std::byte value) override {
    MutexLock lock(mu_);
    if (fills_ == nullptr) {
      UOPD_ASSIGN(fills_, context_->NewStream());
    }
    if (!context_->Enter()) return context_->status();
    const GpuApi& api = context_->api();
    const auto address = static_cast<GpuPointer>(reinterpret_cast<uintptr_t>(data));
    UOPD_TRY(
        context_->Check(api.Fill(address, std::to_integer<unsigned char>(value), bytes, fills_)));
    return context_->Check(api.StreamSynchronize(fills_));
  }
  ~ChipMemory() override {
    MutexLock lock(mu_);
    if (fills_ != nullptr) context_->DestroyStream(fills_);
  }

 private:
  const std::shared_ptr<GpuContext> context_;
  Mutex mu_;
  StreamHandle fills_ UOPD_GUARDED_BY(mu_) = nullptr;  // made when it is needed
};

}  // namespace

absl::Status GpuBuffer::CheckUsable() const {
  if (!given_up_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("A buffer of ", device().info().name,
                                             " cannot be used any more: work that waits for a lost "
                                             "device may still write it"));
}

void* PinnedMemory::Allocate(size_t bytes) {
  if (!context_->Enter()) return nullptr;
  const size_t size = WholePages(bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  const GpuOutcome outcome =
      context_->api().HostRegister(data, size, kRegisterPortable | kRegisterDeviceMap);
  if (context_->Check(outcome).ok()) return data;
  munmap(data, size);
  return nullptr;
}

void PinnedMemory::Free(void* data, size_t bytes) {
  // A lost chip may still write. Then the driver holds the pages until the context is reset, though
  // this process has no address for them any more.
  if (context_->Enter()) {
    context_->Check(context_->api().HostUnregister(data)).IgnoreError();
  }
  munmap(data, WholePages(bytes));
}

absl::Status PinnedMemory::Fill(void* data, size_t bytes, std::byte value) {
  std::memset(data, std::to_integer<int>(value), bytes);
  return absl::OkStatus();
}

absl::StatusOr<GpuPointer> PinnedMemory::AddressOf(GpuContext& context, void* data) {
  GpuPointer address = 0;
  UOPD_TRY(context.Check(context.api().HostPointer(&address, data, 0)));
  return address;
}

GpuHeap::GpuHeap(std::shared_ptr<GpuContext> context, const Options& options)
    : context_(context),
      device_(std::make_unique<ChipMemory>(context),
              {options.limit_bytes, options.keep_bytes, options.pattern}),
      host_(std::make_unique<PinnedMemory>(context),
            {options.limit_bytes, options.keep_bytes, options.pattern}),
      staging_(std::make_unique<PinnedMemory>(context),
               {options.staging_bytes, options.staging_bytes, options.pattern}) {}

absl::StatusOr<std::shared_ptr<Buffer>> GpuHeap::Allocate(std::shared_ptr<Device> device,
                                                          size_t bytes, MemoryKind kind) {
  UOPD_TRY(context_->status());
  const bool host = kind == MemoryKind::kHostVisible;
  MemoryPool& pool = host ? host_ : device_;
  auto taken = pool.Allocate(bytes);
  UOPD_TRY(context_->status());
  UOPD_TRY(taken.status());
  GpuPointer address = reinterpret_cast<uintptr_t>(taken->data);
  absl::Status seen_by_chip;
  if (host) {
    context_->Enter();
    auto seen = PinnedMemory::AddressOf(*context_, taken->data);
    seen_by_chip = seen.status();
    if (seen.ok()) address = *seen;
  }
  if (!seen_by_chip.ok()) {
    pool.Free(*taken);
    return seen_by_chip;
  }
  return std::make_shared<GpuBuffer>(std::move(device), bytes, kind, pool, *taken,
                                     host ? static_cast<std::byte*>(taken->data) : nullptr,
                                     address);
}

MemoryStats GpuHeap::stats() const {
  MemoryStats out = device_.stats();
  const MemoryStats host = host_.stats();
  out.used_bytes += host.used_bytes;
  out.pooled_bytes += host.pooled_bytes;
  out.peak_bytes += host.peak_bytes;
  out.allocations += host.allocations;
  out.pool_hits += host.pool_hits;
  return out;
}

}  // namespace uopd::devices::gpu
