// SPDX-License-Identifier: MIT
// ClusterLeases: leases of the whole cluster while the shared server answers, and of this machine
// while it does not.
//
// Both authorities grant tokens that follow the clock, so the tokens of one are comparable with
// those of the other up to the difference of the clocks. While the server does not answer, two
// machines may compute the same value; the fence of the records decides which one stays.
//
// A lease of the server whose owner was a process of this folder and is dead is released for it,
// and so is free at once. The token of the dead decides, so nobody loses a lease who took it since.
//
// While the server is too slow for requests (AnswerTimes) it grants the leases of patient addresses
// alone, as those of searches, and this machine all others. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cache/base/lease/lease_marks.h"
#include "cache/cluster/guarded_server.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class ClusterLeases final : public Leases {
 public:
  // So long may a question about the lease of a patient address take, while others may not be
  // asked.
  static constexpr std::chrono::milliseconds kPatientBudget{500};
  // Each question to the server ends after `budget`. `maybe_marks` lives as long as `local`; null:
  // the dead are not known.
  ClusterLeases(std::shared_ptr<GuardedServer> server, std::unique_ptr<Leases> local,
                std::chrono::microseconds budget, LeaseMarks* maybe_marks = nullptr,
                NowFn now = WallClockUs, SteadyFn steady = SteadyNow)
      : server_(std::move(server)),
        local_(std::move(local)),
        marks_(maybe_marks),
        budget_(budget),
        now_(std::move(now)),
        steady_(std::move(steady)) {}

  LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Renew(const Digest& address, int64_t token, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Release(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  absl::Status CheckNewest(const Digest& address, int64_t token) override;
  void BePatient(const Digest& address) override UOPD_EXCLUDES(mu_);
  bool IsHeld(const Digest& address) override;

 private:
  Deadline BudgetOf(const Digest& address) UOPD_EXCLUDES(mu_);
  // For whom the server granted this token to this process; nullopt: it did not.
  std::optional<std::string> SharedOwner(const Digest& address, int64_t token) UOPD_EXCLUDES(mu_);
  bool IsShared(const Digest& address, int64_t token) UOPD_EXCLUDES(mu_);
  // Releases the lease that a dead process of this folder has. False: no such process has it.
  bool FreeOfDead(const Digest& address);

  const std::shared_ptr<GuardedServer> server_;
  const std::unique_ptr<Leases> local_;
  LeaseMarks* const marks_;  // null: none
  const std::chrono::microseconds budget_;
  const NowFn now_;
  const SteadyFn steady_;
  Mutex mu_;
  // The tokens that the server granted, the newest of each address, with their owners. Those of
  // lost leases stay until there are many.
  absl::flat_hash_map<Digest, LeaseResult> shared_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_set<Digest> patient_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
