// SPDX-License-Identifier: MIT
#include "server/engine/session/quota.h"

#include <algorithm>
#include <array>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

Gauge& Held(ByteClass what) {
  // In the order of ByteClass. Kept, because looking up a series takes a lock.
  static const std::array<Gauge*, 8> gauges = {
      &metrics::ClientBytes({"buffers"}), &metrics::ClientBytes({"messages"}),
      &metrics::ClientBytes({"answers"}), &metrics::ClientBytes({"results"}),
      &metrics::ClientBytes({"shared"}),  &metrics::ClientBytes({"graphs"}),
      &metrics::ClientBytes({"kept"}),    &metrics::ClientBytes({"contents"})};
  return *gauges[static_cast<size_t>(what)];
}

}  // namespace

Quota::Quota(std::string name, int64_t limit, Quota* parent)
    : name_(std::move(name)),
      refused_(metrics::MemoryRefused({name_})),
      parent_(parent),
      limit_(limit) {}

Quota::Quota(std::string name, int64_t limit, std::shared_ptr<Quota> parent)
    : name_(std::move(name)),
      refused_(metrics::MemoryRefused({name_})),
      kept_(std::move(parent)),
      parent_(kept_.get()),
      limit_(limit) {}

absl::Status Quota::Take(int64_t bytes) {
  bool own = false;
  absl::Status status = TryTake(bytes, &own);
  // If a larger quota refuses, it has asked for what can be given back itself.
  if (!status.ok() && own && ReclaimFor(bytes)) status = TryTake(bytes, &own);
  if (!status.ok() && own) refused_.Increment();
  return status;
}

absl::Status Quota::TakeHere(int64_t bytes) {
  absl::Status status = TryTakeHere(bytes);
  if (!status.ok() && ReclaimFor(bytes)) status = TryTakeHere(bytes);
  if (!status.ok()) refused_.Increment();
  return status;
}

bool Quota::ReclaimFor(int64_t bytes) {
  const bool helps = bytes <= limit() - used() + reclaimable_.load(std::memory_order_relaxed);
  return helps && reclaim_ && reclaim_();
}

absl::Status Quota::TryTakeHere(int64_t bytes) {
  UOPD_CHECK(bytes >= 0);
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > limit || bytes > limit - used) {
      return absl::ResourceExhaustedError(Cat(bytes, " more bytes exceed ", name_, " (", limit,
                                              "), of which ", used, " are in use"));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return absl::OkStatus();
}

absl::Status Quota::TryTake(int64_t bytes, bool* own) {
  absl::Status here = TryTakeHere(bytes);
  *own = !here.ok();
  if (!here.ok() || parent_ == nullptr) return here;
  absl::Status status = parent_->Take(bytes);
  if (!status.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (status.ok() && all_reclaimable_) parent_->NoteReclaimable(bytes);
  return status;
}

bool Quota::Reclaim() {
  const bool own = reclaim_ && reclaim_();
  return (parent_ != nullptr && parent_->Reclaim()) || own;
}

int64_t Quota::FreeBeside(int64_t parts) const {
  const int64_t mine = limit() - limit() / parts - used();
  return parent_ == nullptr ? mine : std::min(mine, parent_->FreeBeside(parts));
}

void Quota::TakeAlways(int64_t bytes) {
  used_.fetch_add(bytes, std::memory_order_relaxed);
  if (parent_ == nullptr) return;
  parent_->TakeAlways(bytes);
  if (all_reclaimable_) parent_->NoteReclaimable(bytes);
}

void Quota::NoteReclaimable(int64_t bytes) {
  reclaimable_.fetch_add(bytes, std::memory_order_relaxed);
  if (parent_ != nullptr) parent_->NoteReclaimable(bytes);
}

void Quota::Give(int64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_ == nullptr) return;
  if (all_reclaimable_) parent_->NoteReclaimable(-bytes);
  parent_->Give(bytes);
}

Charge::Charge(Quota& quota, int64_t bytes, ByteClass what)
    : quota_(&quota), bytes_(bytes), what_(what) {
  Held(what).Add(static_cast<double>(bytes));
  if (what == ByteClass::kKept) quota.NoteReclaimable(bytes);
}

void Charge::Release() {
  if (quota_ == nullptr) return;
  if (here_) {
    if (what_ == ByteClass::kKept) quota_->NoteReclaimableHere(-bytes_);
    return std::exchange(quota_, nullptr)->GiveHere(bytes_);
  }
  if (what_ == ByteClass::kKept) quota_->NoteReclaimable(-bytes_);
  std::exchange(quota_, nullptr)->Give(bytes_);
  Held(what_).Add(-static_cast<double>(bytes_));
}

}  // namespace uopd::engine
