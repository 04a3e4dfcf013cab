// SPDX-License-Identifier: MIT
#include "server/engine/operate/clear_failures.h"

#include <set>
#include <string>

#include "cache/base/row/entries.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

// Nullopt: `id` is empty.
absl::StatusOr<std::optional<Digest>> OnlyFailure(RecentFailures& failures, Workers* maybe_workers,
                                                  std::string_view id) {
  if (id.empty()) return std::nullopt;
  if (!cache::RangeOf(id)) {
    return Invalid(
        "the id of a quarantined job is 64 hexadecimal digits in lower case, or the first ones of "
        "them");
  }
  std::set<Digest> found;
  const auto look_at = [&](const Digest& one) {
    if (one.Hex().starts_with(id)) found.insert(one);
  };
  for (const auto& failure : failures.List()) look_at(failure.key);
  if (maybe_workers != nullptr) {
    for (const auto& job : maybe_workers->ListQuarantine()) look_at(job.entry.job);
  }
  if (found.empty()) return absl::NotFoundError(Cat("no job in quarantine has the id ", id));
  if (found.size() > 1)
    return Invalid(Cat("several jobs in quarantine have ids that start with ", id));
  return *found.begin();
}

}  // namespace

absl::StatusOr<size_t> ClearFailures(RecentFailures& failures, Workers* maybe_workers,
                                     std::string_view id) {
  UOPD_ASSIGN(const std::optional<Digest> only, OnlyFailure(failures, maybe_workers, id));
  const std::string chosen = only ? only->Hex() : "";
  size_t cleared = failures.Clear(chosen);
  if (maybe_workers == nullptr) return cleared;
  const auto jobs = maybe_workers->ClearQuarantine(chosen);
  if (absl::IsNotFound(jobs.status())) return cleared;  // the other list has it
  UOPD_TRY(jobs.status());
  return cleared + *jobs;
}

}  // namespace uopd::engine
