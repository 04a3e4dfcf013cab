// SPDX-License-Identifier: MIT
#include "devices/api/host/host_heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace uopd::devices {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAskKernel =
    // For allocations of this size and more, reading /proc/meminfo is cheap compared to their page
    // faults.
    size_t{64} << 20;

// The bytes that the operating system could give without swapping; 0 if it does not say.
size_t AvailableBytes() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (size_t kib; in >> key >> kib;) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return 0;
}

class HostMemory final : public RawMemory {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes < kHugePage) return std::aligned_alloc(Buffer::kAlignment, Rounded(bytes));
    if (bytes >= kAskKernel) {
      const size_t available = AvailableBytes();
      if (available != 0 && bytes > available) return nullptr;
    }
    // Map one huge page more than needed, then cut off both ends.
    const size_t size = Rounded(bytes);
    void* raw =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(raw);
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, kHugePage - head);
    madvise(begin + head, size,
            // A kernel without huge pages refuses this call. That does no harm.
            MADV_HUGEPAGE);
    return begin + head;
  }

  void Free(void* data, size_t bytes) override {
    if (bytes < kHugePage) {
      std::free(data);
    } else {
      munmap(data, Rounded(bytes));
    }
  }

  absl::Status Fill(void* data, size_t bytes, std::byte value) override {
    std::memset(data, std::to_integer<int>(value), bytes);
    return absl::OkStatus();
  }

 private:
  static size_t Rounded(size_t bytes) {
    const size_t unit = bytes < kHugePage ? Buffer::kAlignment : 4096;
    return (bytes + unit - 1) / unit * unit;
  }
};

class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, MemoryPool& pool,
             MemoryPool::Block block)
      : Buffer(std::move(device), size, kind, static_cast<std::byte*>(block.data)),
        pool_(pool),
        block_(block) {}
  ~HostBuffer() override { pool_.Free(block_); }

 private:
  MemoryPool& pool_;  // owned by the device, which Buffer keeps open
  const MemoryPool::Block block_;
};

}  // namespace

size_t HostMemoryBytes() {
  size_t total =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(file);
    if (size_t bytes; in >> bytes) total = std::min(total, bytes);  // "max" is not a number
  }
  return total;
}

HostHeap::Options HostHeap::Completed(Options options) {
  if (options.limit_bytes == 0) options.limit_bytes = HostMemoryBytes() / 4 * 3;
  options.keep_bytes = std::min(options.keep_bytes, options.limit_bytes / 4);
  return options;
}

HostHeap::HostHeap(const Options& options)
    : options_(Completed(options)),
      pool_(std::make_unique<HostMemory>(),
            {options_.limit_bytes, options_.keep_bytes, options_.pattern}) {}

absl::StatusOr<std::shared_ptr<Buffer>> HostHeap::Allocate(std::shared_ptr<Device> device,
                                                           size_t bytes, MemoryKind kind) {
  UOPD_ASSIGN(MemoryPool::Block block, pool_.Allocate(bytes));
  if (options_.clear && !options_.pattern) std::memset(block.data, 0, block.bytes);
  return std::make_shared<HostBuffer>(std::move(device), bytes, kind, pool_, block);
}

}  // namespace uopd::devices
