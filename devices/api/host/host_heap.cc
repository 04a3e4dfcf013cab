// SPDX-License-Identifier: MIT
#include "devices/api/host/host_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/machine/process_limits.h"

namespace uopd::devices {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// After allocations of this size together, asking the system is cheap compared to their page
// faults; in a control group with a limit, where processes are killed, it is asked more often.
constexpr size_t kAskSystem = size_t{64} << 20, kAskGroup = size_t{16} << 20;
// The part of a control group's limit that buffers leave to the rest of the process, in bytes.
constexpr int64_t kGroupMargin = int64_t{32} << 20;

// The bytes that the operating system could give without swapping; nullopt if it does not say.
std::optional<size_t> FreeOfMachine() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (size_t kib; in >> key >> kib;) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return std::nullopt;
}

// What the control groups of this process leave, and the group that leaves least.
std::optional<ControlGroups::Memory> FreeOfGroup() {
  static const ControlGroups groups = ControlGroups::Find();
  std::optional<ControlGroups::Memory> room = groups.MemoryRoom();
  if (room)
    room->bytes = std::max<int64_t>(0, room->bytes - std::min(kGroupMargin, room->bytes / 2));
  return room;
}

class HostMemory final : public RawMemory {
 public:
  void* Allocate(size_t bytes) override {
    if (unasked_.fetch_add(bytes, std::memory_order_relaxed) + bytes >= ask_) {
      unasked_.store(0, std::memory_order_relaxed);
      if (!Scarcity(bytes).empty()) {
        unasked_.store(ask_, std::memory_order_relaxed);  // the next one asks again
        return nullptr;
      }
    }
    if (bytes < kHugePage) return std::aligned_alloc(Buffer::kAlignment, Rounded(bytes));
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

  std::string Scarcity(size_t bytes) const override {
    if (const auto room = FreeOfGroup(); room && static_cast<int64_t>(bytes) > room->bytes) {
      return absl::StrCat("the control group ", room->group, " has ", room->bytes,
                          " bytes left for buffers below its memory limit");
    }
    if (const auto free = FreeOfMachine(); free && bytes > *free)
      return absl::StrCat("the machine has ", *free, " bytes left");
    return "";
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

  const size_t ask_ = ProcessLimits::AtStart().memory ? kAskGroup : kAskSystem;
  std::atomic<size_t> unasked_{0};  // allocated since the system was asked
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

size_t HostMemoryBytes() { return static_cast<size_t>(ProcessLimits::AtStart().memory_bytes()); }

HostHeap::Options HostHeap::Completed(Options options) {
  if (options.limit_bytes == 0) options.limit_bytes = HostMemoryBytes() / 4 * 3;
  options.keep_bytes = std::min(options.keep_bytes, options.limit_bytes / 4);
  // At the limit of a control group processes are killed: what nobody uses must not fill it.
  if (ProcessLimits::AtStart().memory)
    options.keep_bytes = std::min(options.keep_bytes, HostMemoryBytes() / 16);
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
