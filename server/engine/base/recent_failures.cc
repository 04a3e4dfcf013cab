// SPDX-License-Identifier: MIT
#include "server/engine/base/recent_failures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr char kQuarantinePayload[] = "uopd/in-quarantine";

int64_t Us(std::chrono::milliseconds life) {
  return std::chrono::duration_cast<std::chrono::microseconds>(life).count();
}

}  // namespace

const char* Name(FailureKind kind) {
  switch (kind) {
    case FailureKind::kUnsupported:
      return "unsupported";
    case FailureKind::kCompiler:
      return "compiler";
    case FailureKind::kTuning:
      return "tuning";
  }
  UOPD_CHECK(false);
}

RecentFailures::RecentFailures(const Lives& lives, cache::NowFn now)
    : lives_us_{Us(lives.unsupported), Us(lives.compiler), Us(lives.tuning)},
      now_(std::move(now)) {}

std::optional<absl::Status> RecentFailures::Find(FailureKind kind, const Digest& key) {
  MutexLock lock(mu_);
  Entries& entries = entries_[static_cast<size_t>(kind)];
  const auto it = entries.find(key);
  if (it == entries.end()) return std::nullopt;
  const int64_t age_us = now_() - it->second.since_us;
  if (age_us >= LifeOf(kind)) {
    entries.erase(it);
    return std::nullopt;
  }
  metrics::FailuresRemembered({Name(kind)}).Increment();
  return WithFrame(it->second.status, Cat("remembering what failed ",
                                          std::max<int64_t>(age_us, 0) / 1'000'000, " s ago"));
}

void RecentFailures::Add(FailureKind kind, const Digest& key, const absl::Status& status) {
  if (LifeOf(kind) <= 0) return;
  MutexLock lock(mu_);
  Entries& entries = entries_[static_cast<size_t>(kind)];
  const int64_t now_us = now_();
  if (entries.size() >= kMaxEntries) MakeRoom(now_us);
  entries.insert_or_assign(key, Entry{kind, key, now_us, status});
}

void RecentFailures::MakeRoom(int64_t now_us) {
  for (size_t kind = 0; kind < kFailureKinds; ++kind) {
    Entries& entries = entries_[kind];
    absl::erase_if(entries, [&](const auto& entry) {
      return now_us - entry.second.since_us >= lives_us_[kind];
    });
    if (entries.size() < kMaxEntries) continue;
    std::vector<int64_t> since;
    for (const auto& [key, entry] : entries) since.push_back(entry.since_us);
    const auto middle = since.begin() + static_cast<std::ptrdiff_t>(since.size() / 2);
    std::ranges::nth_element(since, middle);
    absl::erase_if(entries, [&](const auto& entry) { return entry.second.since_us <= *middle; });
  }
}

std::vector<RecentFailures::Entry> RecentFailures::List() {
  std::vector<Entry> out;
  {
    MutexLock lock(mu_);
    const int64_t now_us = now_();
    for (size_t kind = 0; kind < kFailureKinds; ++kind) {
      for (const auto& [key, entry] : entries_[kind]) {
        if (now_us - entry.since_us < lives_us_[kind]) out.push_back(entry);
      }
    }
  }
  std::ranges::sort(out, [](const Entry& a, const Entry& b) {
    return std::pair(a.since_us, a.key) < std::pair(b.since_us, b.key);
  });
  return out;
}

std::array<size_t, kFailureKinds> RecentFailures::Counts() {
  std::array<size_t, kFailureKinds> out{};
  MutexLock lock(mu_);
  const int64_t now_us = now_();
  for (size_t kind = 0; kind < kFailureKinds; ++kind) {
    out[kind] = static_cast<size_t>(std::ranges::count_if(entries_[kind], [&](const auto& e) {
      return now_us - e.second.since_us < lives_us_[kind];
    }));
  }
  return out;
}

size_t RecentFailures::Clear(std::string_view prefix) {
  MutexLock lock(mu_);
  size_t cleared = 0;
  for (Entries& entries : entries_) {
    cleared += absl::erase_if(
        entries, [&](const auto& entry) { return entry.first.Hex().starts_with(prefix); });
  }
  return cleared;
}

absl::Status InQuarantine(absl::Status status) {
  status.SetPayload(kQuarantinePayload, absl::Cord());
  return status;
}

std::optional<FailureKind> KindOfCompileFailure(const absl::Status& status) {
  if (status.GetPayload(kQuarantinePayload)) return std::nullopt;
  if (absl::IsUnimplemented(status)) return FailureKind::kUnsupported;
  if (absl::IsInternal(status)) return FailureKind::kCompiler;
  return std::nullopt;
}

}  // namespace uopd::engine
