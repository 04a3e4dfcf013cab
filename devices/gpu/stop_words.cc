// SPDX-License-Identifier: MIT
#include "devices/gpu/stop_words.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices::gpu {
namespace {

constexpr std::chrono::milliseconds kLookEvery(1);
// What a look counts at most, however late it comes.
constexpr std::chrono::milliseconds kLookCounts(10);
// What a launch gets that may wait for another device: time for the loss of that device to travel
// here.
constexpr std::chrono::seconds kForLossElsewhere(1);
constexpr size_t kBlockBytes = 4096;
// Each word has a cache line of its own: the chip reads it over the bus.
constexpr size_t kWordBytes = 64;

}  // namespace

StopWords::StopWords(std::shared_ptr<GpuContext> context, std::chrono::milliseconds grace)
    : context_(context),
      grace_(grace),
      memory_(std::move(context)),
      watcher_([this] { Watch(); }) {}

StopWords::~StopWords() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.notify_all();
  }
  watcher_.join();
  MutexLock lock(mu_);
  for (void* block : blocks_) memory_.Free(block, kBlockBytes);
}

absl::StatusOr<std::shared_ptr<const StopWords::Lease>> StopWords::Take(
    std::shared_ptr<const StopFlag> maybe_flag) {
  // Made before the lock: its destructor takes the lock.
  std::shared_ptr<Lease> lease;
  {
    MutexLock lock(mu_);
    Entry*& known = by_flag_[maybe_flag.get()];
    if (known == nullptr) {
      auto word = TakeWord();
      if (!word.ok()) {
        by_flag_.erase(maybe_flag.get());
        return word.status();
      }
      entries_.push_back({std::move(maybe_flag), *word});
      known = &entries_.back();
      if (entries_.size() == 1) changed_.notify_all();
    }
    ++known->leases;
    lease = std::make_shared<Lease>(shared_from_this(), known);
    lease->address_ = known->word.address;
  }
  return lease;
}

absl::StatusOr<StopWords::Word> StopWords::TakeWord() {
  if (idle_.empty()) {
    void* block = memory_.Allocate(kBlockBytes);
    UOPD_TRY(context_->status());
    if (block == nullptr) {
      return absl::ResourceExhaustedError("There is no pinned memory left for a stop word");
    }
    blocks_.push_back(block);
    UOPD_ASSIGN(const GpuPointer address, PinnedMemory::AddressOf(*context_, block));
    for (size_t offset = kBlockBytes; offset > 0;) {
      offset -= kWordBytes;
      auto* host = new (static_cast<std::byte*>(block) + offset) std::atomic<uint32_t>(0);
      idle_.push_back({host, address + offset});
    }
  }
  Word word = idle_.back();
  idle_.pop_back();
  word.host->store(0, std::memory_order_relaxed);
  return word;
}

void StopWords::Abandon(Entry* entry, bool& abandoned) {
  MutexLock lock(mu_);
  if (std::exchange(abandoned, true)) return;
  ++entry->abandoned;
  // The word without a flag is that of other sessions too.
  if (entry->flag != nullptr) entry->word.host->store(1, std::memory_order_relaxed);
}

void StopWords::Release(Entry* entry, bool abandoned) {
  std::shared_ptr<const StopFlag> dropped;  // after the lock is released
  MutexLock lock(mu_);
  if (abandoned) --entry->abandoned;
  if (--entry->leases > 0) return;
  by_flag_.erase(entry->flag.get());
  idle_.push_back(entry->word);
  dropped = std::move(entry->flag);
  entries_.remove_if([&](const Entry& e) { return &e == entry; });
}

void StopWords::Watch() {
  MutexLock lock(mu_);
  for (;;) {
    lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return ending_ || !entries_.empty(); });
    if (ending_) return;
    const auto began = Clock::now();
    Look();
    lock.WaitUntil(changed_, began + kLookEvery, [this]() UOPD_REQUIRES(mu_) { return ending_; });
    running_ += std::min<Clock::duration>(Clock::now() - began, kLookCounts);
  }
}

void StopWords::Look() {
  bool all_stopped = true;
  for (Entry& entry : entries_) {
    if (entry.flag != nullptr && entry.flag->stopped()) {
      entry.word.host->store(1, std::memory_order_relaxed);
    } else if (entry.leases > entry.abandoned) {
      all_stopped = false;
    }
  }
  const bool elsewhere = context_->waits_elsewhere() > 0;
  if (elsewhere) waited_elsewhere_ = running_;
  for (Entry& entry : entries_) {
    if (!all_stopped || entry.leases == entry.abandoned) {
      entry.stopped_at.reset();
      continue;
    }
    if (!entry.stopped_at) entry.stopped_at = running_;
    const bool late = elsewhere
                          ? running_ - *entry.stopped_at > grace_ + kForLossElsewhere
                          : running_ - std::max(*entry.stopped_at, waited_elsewhere_) > grace_;
    if (late) {
      context_->Lose(absl::UnavailableError(absl::StrCat("The device ", context_->name(),
                                                         " is lost: a kernel does not stop within ",
                                                         grace_.count(), " ms")));
    }
  }
}

}  // namespace uopd::devices::gpu
