// SPDX-License-Identifier: MIT
#include "devices/api/memory_pool.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace uopd::devices {
namespace {

size_t AlignUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

size_t MemoryPool::SizeClass(size_t bytes) {
  const size_t n = std::max(bytes, Buffer::kAlignment);
  const size_t step = std::max(std::bit_floor(n) / 8, Buffer::kAlignment);
  return AlignUp(n, step);
}

MemoryPool::MemoryPool(std::unique_ptr<RawMemory> raw, Options options)
    : raw_(std::move(raw)), options_(options) {
  stats_.limit_bytes = options.limit_bytes;
}

MemoryPool::~MemoryPool() {
  Trim();
  MutexLock lock(mu_);
  UOPD_CHECK(stats_.used_bytes == 0);
}

MemoryPool::Block MemoryPool::TakeKept(Kept::iterator it) {
  const Block block = *it;
  kept_.erase(it);
  stats_.pooled_bytes -= block.bytes;
  return block;
}

void MemoryPool::Shrink(size_t keep, std::vector<Block>& out) {
  while (stats_.pooled_bytes > keep) {
    auto oldest = std::prev(kept_.end());
    by_class_[oldest->bytes].pop_back();
    out.push_back(TakeKept(oldest));
  }
}

void MemoryPool::Release(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) raw_->Free(block.data, block.bytes);
}

void MemoryPool::Count(const Block& block) {
  ++stats_.allocations;
  stats_.used_bytes += block.bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.used_bytes);
}

absl::StatusOr<MemoryPool::Block> MemoryPool::Allocate(size_t bytes) {
  UOPD_ASSIGN(const Block block, Take(bytes));
  if (!options_.pattern) return block;
  absl::Status filled = raw_->Fill(block.data, block.bytes, options_.pattern());
  if (filled.ok()) return block;
  Free(block);
  return filled;
}

absl::StatusOr<MemoryPool::Block> MemoryPool::Take(size_t bytes) {
  const auto exhausted = [&](const std::string& why) {
    return absl::ResourceExhaustedError(
        absl::StrCat("An allocation of ", bytes, " bytes fails: ", why));
  };
  if (bytes > options_.limit_bytes) {
    return exhausted(absl::StrCat("the device's limit is ", options_.limit_bytes, " bytes"));
  }
  std::vector<Block> evicted;
  Block block{nullptr, SizeClass(bytes)};
  {
    MutexLock lock(mu_);
    if (auto it = by_class_.find(block.bytes); it != by_class_.end() && !it->second.empty()) {
      auto newest = it->second.front();
      it->second.pop_front();
      block = TakeKept(newest);
      ++stats_.pool_hits;
      Count(block);
      return block;
    }
    size_t room = options_.limit_bytes - stats_.used_bytes;
    // Near the limit the requested size may fit although its size class does not.
    if (block.bytes > room) block.bytes = AlignUp(std::max<size_t>(bytes, 1), Buffer::kAlignment);
    if (block.bytes > room) {
      return exhausted(absl::StrCat(stats_.used_bytes, " of the device's ", options_.limit_bytes,
                                    " bytes are in use"));
    }
    Shrink(room - block.bytes, evicted);
    // Reserved before the lock is released. Otherwise callers that race could exceed the limit
    // together.
    Count(block);
  }
  Release(evicted);
  block.data = raw_->Allocate(block.bytes);
  if (block.data == nullptr) {
    Trim();
    block.data = raw_->Allocate(block.bytes);
  }
  if (block.data != nullptr) return block;
  MutexLock lock(mu_);
  stats_.used_bytes -= block.bytes;
  const std::string why = raw_->Scarcity(block.bytes);
  return exhausted(why.empty() ? "the machine has no memory left for it" : why);
}

void MemoryPool::Free(Block block) {
  std::vector<Block> evicted;
  {
    MutexLock lock(mu_);
    stats_.used_bytes -= block.bytes;
    if (block.bytes == SizeClass(block.bytes) && block.bytes <= options_.keep_bytes) {
      kept_.push_front(block);
      by_class_[block.bytes].push_front(kept_.begin());
      stats_.pooled_bytes += block.bytes;
      Shrink(options_.keep_bytes, evicted);
    } else {
      evicted.push_back(block);
    }
  }
  Release(evicted);
}

void MemoryPool::Trim() {
  std::vector<Block> evicted;
  {
    MutexLock lock(mu_);
    Shrink(0, evicted);
  }
  Release(evicted);
}

MemoryStats MemoryPool::stats() const {
  MutexLock lock(mu_);
  return stats_;
}

}  // namespace uopd::devices
