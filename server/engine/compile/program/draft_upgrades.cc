// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/draft_upgrades.h"

#include <algorithm>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::engine {

DraftUpgrades::DraftUpgrades(int threads, KernelLoader& loader, std::function<void()> on_idle,
                             Waits waits)
    : loader_(loader),
      on_idle_(std::move(on_idle)),
      waits_(waits),
      task_pool_(std::max(1, threads), SIZE_MAX) {}

DraftUpgrades::Foreground::Foreground(DraftUpgrades* maybe_upgrades)
    : maybe_upgrades_(maybe_upgrades) {
  if (maybe_upgrades_ == nullptr) return;
  MutexLock lock(maybe_upgrades_->mu_);
  ++maybe_upgrades_->foreground_;
}

DraftUpgrades::Foreground::~Foreground() {
  if (maybe_upgrades_ == nullptr) return;
  MutexLock lock(maybe_upgrades_->mu_);
  if (--maybe_upgrades_->foreground_ == 0) maybe_upgrades_->turn_.notify_all();
}

void DraftUpgrades::Add(const Caller& caller, const std::shared_ptr<ProgramUpdate>& program) {
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < program->size(); ++i) {
    if (!program->KernelAt(i)->draft) continue;
    pending_.fetch_add(1);
    metrics::DraftsPending().Add(1);
    task_pool_.Post(caller, [this, program, i, now] { Upgrade(*program, i, now); });
  }
}

void DraftUpgrades::Stop() {
  MutexLock lock(mu_);
  stopped_.store(true);
  turn_.notify_all();
}

void DraftUpgrades::AwaitTurn(const ProgramUpdate& program, Clock::time_point added) {
  constexpr std::chrono::milliseconds kPoll{10};  // how soon the end of the first run is noticed
  const Clock::time_point latest = Clock::now() + waits_.most;
  for (Clock::time_point now; (now = Clock::now()) < latest;) {
    const bool runs = now < added + waits_.first_run && program.wanted() && !program.has_run();
    MutexLock lock(mu_);
    const bool turn = lock.WaitUntil(
        turn_, std::min(latest, now + kPoll),
        [&]() UOPD_REQUIRES(mu_) { return stopped() || (!runs && foreground_ == 0); });
    if (turn) return;
  }
}

void DraftUpgrades::Upgrade(ProgramUpdate& program, size_t i, Clock::time_point added) {
  const char* const result = TryUpgrade(program, i, added);
  metrics::DraftUpgrades({result}).Increment();
  metrics::DraftsPending().Add(-1);
  if (pending_.fetch_sub(1) == 1 && on_idle_ && !stopped()) on_idle_();
}

const char* DraftUpgrades::TryUpgrade(ProgramUpdate& program, size_t i, Clock::time_point added) {
  AwaitTurn(program, added);
  if (stopped()) return "cancelled";
  const std::shared_ptr<const Kernel> draft = program.KernelAt(i);
  if (!program.wanted() || !draft->draft) return "dropped";  // tuning was quicker
  KernelRequest wanted = program.RequestOf(i);
  wanted.tier = Tier::kUpgrade;
  RequestContext request;
  request.cancelled = [this] { return stopped(); };
  PhaseTimings timings;          // belongs to no request
  const devices::IdleWork idle;  // of the worker process that compiles
  auto optimised = loader_.Get(request, wanted, &timings);
  absl::Status status = optimised.status();
  if (status.ok()) status = program.Replace(i, optimised->kernel);
  if (status.ok()) return optimised->from == CacheResult::kMiss ? "compiled" : "found";
  if (absl::IsCancelled(status)) return "cancelled";
  UOPD_LOG(kWarn, "a kernel keeps its draft", {"kernel", draft->name}, {"status", status});
  return "failed";
}

}  // namespace uopd::engine
