// SPDX-License-Identifier: MIT
#include "server/engine/content/content_memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

int64_t ChargedBytesOf(const HeldContent& held) {
  return ChargedBytes(static_cast<int64_t>(held.allocation.buffer->size()));
}

}  // namespace

// Quotas count what can be freed: what no buffer uses. The sums are right whoever comes first,
// because each change between no buffer and some is counted once.
ContentUse::ContentUse(ContentMemory& memory, std::shared_ptr<HeldContent> held, Kind kind)
    : memory_(memory), held_(std::move(held)), kind_(kind) {
  held_->users.fetch_add(1);
  if (kind_ == kBuffer && held_->buffers.fetch_add(1) == 0)
    memory_.quota_.NoteReclaimable(-ChargedBytesOf(*held_));
  held_->last_use_ns.store(NowNs(), std::memory_order_relaxed);
}

ContentUse::~ContentUse() {
  held_->last_use_ns.store(NowNs(), std::memory_order_relaxed);
  if (kind_ == kBuffer && held_->buffers.fetch_sub(1) == 1)
    memory_.quota_.NoteReclaimable(ChargedBytesOf(*held_));
  held_->users.fetch_sub(1);
}

std::optional<Digest> ContentMemory::TagOf(const Digest& sha256, uint64_t bytes) const {
  MutexLock lock(mu_);
  const auto at = table_.find(sha256);
  if (at == table_.end() || at->second[0]->allocation.buffer->size() != bytes) return std::nullopt;
  return at->second[0]->names.tag;
}

std::shared_ptr<HeldContent> ContentMemory::FindLocked(const Digest& sha256,
                                                       const DeviceState& device) const {
  const auto at = table_.find(sha256);
  if (at == table_.end()) return nullptr;
  const auto held =
      std::ranges::find(at->second, &device, [](const auto& h) { return h->allocation.device; });
  return held == at->second.end() ? nullptr : *held;
}

std::shared_ptr<const ContentUse> ContentMemory::Find(const Digest& sha256, DeviceState& device,
                                                      ContentUse::Kind kind) {
  MutexLock lock(mu_);
  auto held = FindLocked(sha256, device);
  if (held == nullptr || !device.device().status().ok()) return nullptr;
  return std::make_shared<const ContentUse>(*this, std::move(held), kind);
}

absl::StatusOr<std::shared_ptr<const ContentUse>> ContentMemory::Add(
    const ContentHasher::Names& names, DeviceState& device, std::shared_ptr<devices::Buffer> buffer,
    ContentUse::Kind kind) {
  if (auto found = Find(names.sha256, device, kind); found != nullptr) return found;
  auto made = std::make_shared<HeldContent>();
  made->names = names;
  made->allocation.device = &device;
  made->allocation.buffer = std::move(buffer);
  const int64_t bytes = ChargedBytesOf(*made);
  MakeRoom(bytes);
  UOPD_ASSIGN(made->allocation.charge, Charge::Take(quota_, bytes, ByteClass::kContents));
  MutexLock lock(mu_);
  auto held = FindLocked(names.sha256, device);
  if (held == nullptr) {
    if (held_ >= kMostContents) return absl::ResourceExhaustedError("too many contents are in use");
    held = std::move(made);
    table_[names.sha256].push_back(held);
    ++held_;
    quota_.NoteReclaimable(bytes);  // as long as nobody uses it
  }
  return std::make_shared<const ContentUse>(*this, std::move(held), kind);
}

ContentMemory::Taken ContentMemory::Take(absl::FunctionRef<bool(const HeldContent&)> which) {
  Taken out;
  absl::erase_if(table_, [&](auto& entry) {
    auto& of_devices = entry.second;
    for (size_t i = of_devices.size(); i-- > 0;) {
      if (!which(*of_devices[i])) continue;
      quota_.NoteReclaimable(-ChargedBytesOf(*of_devices[i]));
      out.push_back(std::move(of_devices[i]));
      of_devices.erase(of_devices.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return of_devices.empty();
  });
  held_ -= out.size();
  return out;
}

void ContentMemory::MakeRoom(int64_t bytes) {
  if (bytes > quota_.limit()) return;  // nothing helps
  Taken evicted;                       // destroyed after the lock is released
  MutexLock lock(mu_);
  int64_t over = quota_.used() + bytes - quota_.limit();
  size_t many = held_ >= kMostContents ? 1 : 0;
  if (over <= 0 && many == 0) return;
  std::vector<const HeldContent*> unused;
  for (const auto& [sha256, of_devices] : table_) {
    for (const auto& held : of_devices) {
      if (held->users.load() == 0) unused.push_back(held.get());
    }
  }
  std::ranges::sort(unused, {}, [](const HeldContent* held) { return held->last_use_ns.load(); });
  absl::flat_hash_set<const HeldContent*> oldest;
  for (const HeldContent* held : unused) {
    if (over <= 0 && many == 0) break;
    oldest.insert(held);
    over -= ChargedBytesOf(*held);
    many = 0;
  }
  evicted = Take([&](const HeldContent& held) { return oldest.contains(&held); });
  metrics::ContentEvictions({"memory"}).Increment(evicted.size());
}

bool ContentMemory::Drop() {
  Taken dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  dropped = Take([](const HeldContent& held) { return held.users.load() == 0; });
  metrics::ContentEvictions({"memory"}).Increment(dropped.size());
  return !dropped.empty();
}

void ContentMemory::NoteLosses() {
  Taken lost;  // destroyed after the lock is released
  MutexLock lock(mu_);
  // Some may be in use. Their last use then tells the quota again that the bytes can be freed.
  lost =
      Take([](const HeldContent& held) { return !held.allocation.device->device().status().ok(); });
}

ContentMemory::Usage ContentMemory::usage() const {
  MutexLock lock(mu_);
  Usage out{.bytes = quota_.used(), .most_bytes = quota_.limit(), .contents = held_};
  for (const auto& [sha256, of_devices] : table_) {
    for (const auto& held : of_devices) {
      if (held->users.load() > 0) out.used_bytes += ChargedBytesOf(*held);
    }
  }
  return out;
}

}  // namespace uopd::engine
