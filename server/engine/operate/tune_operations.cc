// SPDX-License-Identifier: MIT
#include "server/engine/operate/tune_operations.h"

#include <algorithm>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/random_id.h"
#include "server/engine/base/shutting_down.h"

namespace uopd::engine {
namespace {

using std::chrono::steady_clock;

constexpr int kLooksBetweenOthers = 5;
constexpr size_t kMaxIdBytes = 64;

// The operation that has the request id of a wish for this graph. INVALID_ARGUMENT: the id was used
// for something else.
absl::StatusOr<TuneOperations::OperationPtr> AsWished(TuneOperations::OperationPtr known,
                                                      const TuneWish& wish, const Digest& graph) {
  const TuneState first = known->Summary().head;
  CompileOptions options = first.options;
  if (wish.beam_is_default) options.beam = wish.options.beam;  // the default may have changed
  if (first.graph == graph && options == wish.options) return known;
  return absl::InvalidArgumentError(Cat("request id (", wish.request_id, ") was used for ",
                                        first.graph == graph ? "other options" : "another graph",
                                        ": tuning ", known->id()));
}

bool Sees(const Caller& caller, const TuneOperation& op) {
  return caller.sees_all || op.tenant() == caller.tenant;
}

absl::Status CheckWish(const TuneWish& wish) {
  if (wish.budget_ms > static_cast<uint64_t>(TuneWish::kMaxBudgetMs)) {
    return absl::InvalidArgumentError(Cat("budget_ms (", wish.budget_ms, ") is more than ",
                                          TuneWish::kMaxBudgetMs, ", which is 30 days"));
  }
  if (wish.request_id.size() > TuneWish::kMaxText || wish.title.size() > TuneWish::kMaxText) {
    return absl::InvalidArgumentError(
        Cat(wish.title.size() > TuneWish::kMaxText ? "title" : "request_id", " has more than ",
            TuneWish::kMaxText, " bytes"));
  }
  if (wish.options.beam <= 0)
    return absl::InvalidArgumentError("beam (0) leaves nothing to search");
  if (wish.options.noopt) return absl::InvalidArgumentError("noopt leaves nothing to tune");
  if (!wish.options.caches_tuning()) {
    return absl::InvalidArgumentError(
        "cache_level (0) keeps no results, so the winners would be lost");
  }
  return absl::OkStatus();
}

}  // namespace

TuneOperations::TuneOperations(Options options, CompileService& compile, cache::Store& store)
    : options_(std::move(options)),
      compile_(compile),
      rows_(store, options_.owner, options_.lease_us) {
  if (compile_.tunes()) thread_ = std::thread([this] { Keep(); });
}

TuneOperations::~TuneOperations() {
  Stop();
  MutexLock lock(mu_);
  lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return planning_ == 0; });
}

void TuneOperations::Stop() {
  std::vector<Entry> own;
  {
    MutexLock lock(mu_);
    if (stopped_.exchange(true)) return;
    for (auto& [id, entry] : entries_) {
      if (!entry.here) continue;
      entry.op->Pause();
      entry.here = false;
      own.push_back({.op = entry.op, .maybe_lease = std::move(entry.maybe_lease)});
    }
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  // The leases end after the rows are written, so that the next daemon reads them as they are now.
  for (const Entry& entry : own) Write(entry.op);
  if (!own.empty()) rows_.Flush().IgnoreError();
}

void TuneOperations::Write(const OperationPtr& op) {
  MutexLock lock(write_mu_);
  rows_.Put(op->Copy());
}

void TuneOperations::Scan() {
  const MutexLock rows(rows_mu_);
  for (const Digest& row : rows_.List()) {
    {
      MutexLock lock(mu_);
      const bool known = std::ranges::any_of(
          entries_, [&](const auto& entry) { return TuneRows::AddressOf(entry.first) == row; });
      if (known) continue;
    }
    std::optional<TuneState> state = rows_.Read(row);
    if (!state) continue;
    const auto op = std::make_shared<TuneOperation>(*std::move(state));
    MutexLock lock(mu_);
    entries_.try_emplace(op->id(), Entry{.op = op});
    changed_.notify_all();  // the thread may have had nothing to look at
  }
}

absl::Status TuneOperations::Room(const std::string& tenant) {
  size_t all = 0, of_tenant = 0;
  for (const auto& [id, entry] : entries_) {
    if (IsOver(entry.op->phase())) continue;
    ++all;
    of_tenant += entry.op->tenant() == tenant;
  }
  if (of_tenant >= options_.active_of_tenant) {
    return absl::ResourceExhaustedError(Cat(of_tenant, " tuning operations of ",
                                            tenant.empty() ? "this daemon" : tenant,
                                            " are not over: wait for one, or cancel one"));
  }
  if (all >= options_.active) {
    return absl::ResourceExhaustedError(
        Cat(all, " tuning operations of this daemon are not over: try again later"));
  }
  return absl::OkStatus();
}

absl::Status TuneOperations::Enter(const OperationPtr& op,
                                   std::unique_ptr<TuneRows::Lease> maybe_lease, bool checked) {
  op->set_host(options_.owner);
  op->CountAttempt();
  MutexLock lock(mu_);
  if (stopped()) return ShuttingDown();
  if (checked) UOPD_TRY(Room(op->tenant()));
  entries_.insert_or_assign(op->id(), Entry{.op = op,
                                            .maybe_lease = std::move(maybe_lease),
                                            .here = true,
                                            .written_at = steady_clock::now()});
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<TuneOperations::OperationPtr> TuneOperations::Start(RequestContext& request,
                                                                   const TuneWish& wish) {
  UOPD_TRY(CheckWish(wish));
  const std::string& tenant = request.caller.tenant;
  const auto same = [&]() UOPD_REQUIRES(mu_) -> OperationPtr {
    if (wish.request_id.empty()) return nullptr;
    for (const auto& [id, entry] : entries_) {
      if (entry.op->tenant() == tenant && entry.op->Asked(wish.request_id)) return entry.op;
    }
    return nullptr;
  };
  OperationPtr known;
  {
    MutexLock lock(mu_);
    known = same();
    if (known == nullptr) UOPD_TRY(Room(tenant));
  }
  if (known != nullptr) {
    UOPD_ASSIGN(const Digest graph, compile_.DigestOf(request, wish.graph));
    return AsWished(std::move(known), wish, graph);
  }
  UOPD_ASSIGN(const auto plan, compile_.PlanTuning(request, wish.graph, wish.options));
  TuneState state;
  UOPD_ASSIGN(state.id, RandomId());
  state.tenant = tenant;
  state.request_id = wish.request_id;
  state.title = wish.title;
  state.graph = plan->digest;
  state.options = wish.options;
  state.budget_us = static_cast<int64_t>(wish.budget_ms) * 1000;
  state.budget_candidates = wish.budget_candidates;
  state.created_us = cache::WallClockUs();
  auto op = std::make_shared<TuneOperation>(std::move(state));
  {
    // Of two calls with one request_id, the second sees what the first has entered.
    MutexLock start(start_mu_);
    {
      MutexLock lock(mu_);
      known = same();
    }
    if (known != nullptr) return AsWished(std::move(known), wish, plan->digest);
    UOPD_TRY(Enter(op, rows_.TryClaim(op->id()).maybe_lease, true));
  }
  // Should the kernels end the daemon, the next one has to know it.
  Write(op);
  rows_.Flush().IgnoreError();
  Run(op, plan);
  Trim();
  return op;
}

void TuneOperations::Run(const OperationPtr& op, const std::shared_ptr<const TuningPlan>& plan) {
  std::vector<std::optional<TuningRecord>> found;
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    found.push_back(
        compile_.tuning().Find(plan->ScheduledAt(i).graph, plan->DeviceOf(i), plan->options()));
  }
  const std::vector<size_t> left = op->Run(*plan, found);
  UOPD_LOG(kInfo, "a tuning operation begins", {"id", op->id()}, {"tenant", op->tenant()},
           {"kernels", plan->kernels.size()}, {"to_tune", left.size()});
  if (!left.empty()) compile_.Tune(plan, left, op);
}

void TuneOperations::PlanLater(const OperationPtr& op) {
  {
    MutexLock lock(mu_);
    if (stopped()) return;
    ++planning_;
  }
  compile_.Post(Caller{.tenant = op->tenant()}, [this, op] {
    const TuneState state = op->Copy();
    RequestContext request;
    request.background = true;
    request.caller.tenant = state.tenant;
    request.cancelled = [this, op] { return stopped() || op->cancelled(); };
    const auto plan = compile_.PlanTuning(request, {.digest = state.graph.view()}, state.options);
    if (plan.ok()) {
      Run(op, *plan);
    } else if (!stopped() && !op->cancelled()) {
      op->Fail(WithFrame(plan.status(), "planning the operation again"));
    }
    MutexLock lock(mu_);
    --planning_;
    changed_.notify_all();
  });
}

std::vector<TuneOperations::OperationPtr> TuneOperations::List(const Caller& caller) {
  Scan();
  std::vector<std::pair<int64_t, OperationPtr>> found;
  {
    MutexLock lock(mu_);
    for (const auto& [id, entry] : entries_) {
      if (Sees(caller, *entry.op))
        found.emplace_back(entry.op->Summary().head.created_us, entry.op);
    }
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return std::pair(-a.first, a.second->id()) < std::pair(-b.first, b.second->id());
  });
  std::vector<OperationPtr> out;
  for (auto& [created, op] : found) out.push_back(std::move(op));
  return out;
}

absl::StatusOr<TuneOperations::OperationPtr> TuneOperations::Find(const Caller& caller,
                                                                  std::string_view id) {
  if (id.empty()) return absl::InvalidArgumentError("the id of the tuning operation is missing");
  if (id.size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(
        Cat("the id of the tuning operation has ", id.size(), " bytes"));
  }
  const auto look = [&]() UOPD_EXCLUDES(mu_) {
    std::vector<OperationPtr> out;
    MutexLock lock(mu_);
    for (auto it = entries_.lower_bound(id); it != entries_.end() && it->first.starts_with(id);
         ++it) {
      if (Sees(caller, *it->second.op)) out.push_back(it->second.op);
    }
    return out;
  };
  std::vector<OperationPtr> found = look();
  if (found.empty()) {
    Scan();  // another daemon of the data folder may have it
    found = look();
  }
  if (found.empty()) return absl::NotFoundError(Cat("no tuning operation has the id ", id));
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        Cat(found.size(), " tuning operations have ids that begin with ", id));
  }
  return std::move(found.front());
}

absl::StatusOr<TuneOperations::OperationPtr> TuneOperations::Cancel(const Caller& caller,
                                                                    std::string_view id) {
  constexpr int kMaxTries = 8;  // another object may take the place of the operation meanwhile
  for (int i = 0; i < kMaxTries; ++i) {
    UOPD_ASSIGN(OperationPtr op, Find(caller, id));
    std::unique_ptr<TuneRows::Lease> maybe_lease;
    if (!Has(op, true) && !IsOver(op->phase())) {
      TuneRows::Claim claim = rows_.TryClaim(op->id());
      if (!claim.holder.empty() && claim.holder != options_.owner) {
        return absl::FailedPreconditionError(
            Cat("tuning ", op->id(), " is held by ", claim.holder,
                ": cancel it there, or try again in some seconds if that daemon has ended"));
      }
      maybe_lease = std::move(claim.maybe_lease);
    }
    UOPD_TRY(op->Cancel());
    if (!Has(op, false)) continue;
    Write(op);
    rows_.Flush().IgnoreError();
    return op;
  }
  return absl::AbortedError(Cat("tuning ", id, " changes too often: try again"));
}

bool TuneOperations::Has(const OperationPtr& op, bool here) {
  MutexLock lock(mu_);
  const auto it = entries_.find(op->id());
  return it != entries_.end() && it->second.op == op && (!here || it->second.here);
}

absl::StatusOr<TuneOperations::OperationPtr> TuneOperations::Resume(const Caller& caller,
                                                                    std::string_view id,
                                                                    uint64_t more_budget_ms,
                                                                    uint64_t more_candidates) {
  UOPD_TRY(CheckWish({.options = {.beam = 1}, .budget_ms = more_budget_ms}));
  if (!compile_.tunes())
    return absl::UnavailableError("this daemon has no worker processes, and only these can tune");
  UOPD_ASSIGN(const OperationPtr old, Find(caller, id));
  UOPD_ASSIGN(TuneState state,
              old->Resumed(static_cast<int64_t>(more_budget_ms) * 1000, more_candidates));
  // What has just ended gives its lease back soon.
  constexpr int kMaxTries = 50;
  constexpr std::chrono::milliseconds kPause{20};
  TuneRows::Claim claim = rows_.TryClaim(old->id());
  for (int i = 0; i < kMaxTries && claim.holder == options_.owner; ++i) {
    LookAtOwn();
    std::this_thread::sleep_for(kPause);
    claim = rows_.TryClaim(old->id());
  }
  if (!claim.holder.empty()) {
    return absl::FailedPreconditionError(
        Cat("tuning ", old->id(), " is held by ", claim.holder, ": resume it there"));
  }
  auto op = std::make_shared<TuneOperation>(std::move(state));
  UOPD_TRY(Enter(op, std::move(claim.maybe_lease), true));
  Write(op);
  rows_.Flush().IgnoreError();
  PlanLater(op);
  return op;
}

void TuneOperations::LookAtOwn() {
  std::vector<OperationPtr> write, over;
  std::vector<std::unique_ptr<TuneRows::Lease>> ended;
  const auto now = steady_clock::now();
  int64_t active = 0;
  {
    MutexLock lock(mu_);
    if (stopped()) return;
    for (auto& [id, entry] : entries_) {
      if (!entry.here) continue;
      const uint64_t version = entry.op->version();
      if (entry.maybe_lease != nullptr && entry.maybe_lease->lost()) {
        // Another daemon of the folder has taken it: this one was stopped for too long.
        UOPD_LOG(kWarn, "a tuning operation was lost to another daemon", {"id", id});
        entry.op->Pause();
        entry.here = false;
        ended.push_back(std::move(entry.maybe_lease));
        continue;
      }
      const bool is_over = IsOver(entry.op->phase());
      if (is_over) {
        entry.here = false;
        over.push_back(entry.op);
        ended.push_back(std::move(entry.maybe_lease));
      } else {
        ++active;
      }
      if (is_over || (version != entry.written && now - entry.written_at >= options_.write_every)) {
        entry.written = version;
        entry.written_at = now;
        write.push_back(entry.op);
      }
    }
  }
  metrics::TuneOperationsActive().Set(active);
  for (const OperationPtr& op : write) Write(op);
  for (const OperationPtr& op : over) {
    metrics::TuneOperations({Name(op->phase())}).Increment();
    const TuneChanges summary = op->Summary();
    UOPD_LOG(kInfo, "a tuning operation ended", {"id", op->id()},
             {"state", Name(summary.head.phase)}, {"error", summary.head.error},
             {"candidates", summary.head.candidates},
             {"spent_s", static_cast<double>(summary.head.spent_us) * 1e-6});
  }
  if (!over.empty()) {
    rows_.Flush().IgnoreError();
    Trim();
  }
}

void TuneOperations::LookAtOthers() {
  std::vector<OperationPtr> others;
  {
    MutexLock lock(mu_);
    // Stop has given up this daemon's own ones, whose rows are older than what it is about to
    // write.
    if (stopped()) return;
    for (const auto& [id, entry] : entries_) {
      if (!entry.here && !IsOver(entry.op->phase())) others.push_back(entry.op);
    }
  }
  for (const OperationPtr& op : others) Adopt(op);
}

void TuneOperations::Adopt(const OperationPtr& seen) {
  TuneRows::Claim claim = rows_.TryClaim(seen->id());
  // With the lease, nobody writes the row any more.
  std::optional<TuneState> state = rows_.Read(TuneRows::AddressOf(seen->id()));
  if (!state) {
    MutexLock lock(mu_);
    if (const auto it = entries_.find(seen->id()); it != entries_.end() && it->second.op == seen)
      entries_.erase(it);  // the other daemon has removed it
    return;
  }
  if (!claim.holder.empty() || IsOver(state->phase)) {
    seen->Replace(*std::move(state));
    seen->set_host(IsOver(seen->phase()) ? "" : claim.holder);
    return;
  }
  const int attempts = state->attempts;
  state->phase = TunePhase::kPlanning;
  const auto op = std::make_shared<TuneOperation>(*std::move(state));
  if (!Enter(op, std::move(claim.maybe_lease), false).ok()) return;
  if (attempts >= options_.attempts) {
    op->Interrupt(Cat("the daemon ended ", attempts,
                      " times during this operation; see its log, and resume it by hand"));
    return;  // LookAtOwn writes it
  }
  UOPD_LOG(kInfo, "a tuning operation goes on", {"id", op->id()}, {"attempt", attempts + 1});
  Write(op);
  rows_.Flush().IgnoreError();
  PlanLater(op);
}

void TuneOperations::Trim() {
  const MutexLock rows(rows_mu_);
  std::vector<std::string> removed;
  {
    MutexLock lock(mu_);
    struct Old {
      int64_t created_us;
      std::string tenant, id;
    };
    std::vector<Old> over;
    std::map<std::string, size_t> of_tenant;
    for (const auto& [id, entry] : entries_) {
      ++of_tenant[entry.op->tenant()];
      if (entry.here || !IsOver(entry.op->phase())) continue;
      over.push_back({entry.op->Summary().head.created_us, entry.op->tenant(), id});
    }
    std::ranges::sort(over, {}, &Old::created_us);
    const int64_t oldest_us =
        cache::WallClockUs() - std::chrono::microseconds(options_.age).count();
    for (const Old& old : over) {
      size_t& count = of_tenant[old.tenant];
      if (old.created_us >= oldest_us && count <= options_.kept_of_tenant &&
          entries_.size() <= options_.kept)
        continue;
      --count;
      entries_.erase(old.id);
      removed.push_back(old.id);
    }
  }
  for (const std::string& id : removed) rows_.Remove(id);
}

void TuneOperations::Keep() {
  Scan();
  Trim();
  steady_clock::time_point others_at;
  for (;;) {
    LookAtOwn();
    // Each look at an operation of another daemon asks for its lease.
    if (const auto now = steady_clock::now(); now >= others_at) {
      LookAtOthers();
      others_at = now + kLooksBetweenOthers * options_.look_every;
    }
    MutexLock lock(mu_);
    const auto active = [&]() UOPD_REQUIRES(mu_) {
      return std::ranges::any_of(entries_, [](const auto& entry) {
        return entry.second.here || !IsOver(entry.second.op->phase());
      });
    };
    if (active()) {
      lock.WaitUntil(changed_, steady_clock::now() + options_.look_every,
                     [this] { return stopped(); });
    } else {
      lock.Wait(changed_, [&]() UOPD_REQUIRES(mu_) { return stopped() || active(); });
    }
    if (stopped()) return;
  }
}

}  // namespace uopd::engine
