// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_service.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"
#include "server/engine/base/lease_owner.h"
#include "server/engine/base/lookups.h"

namespace uopd::engine {
namespace {

constexpr char kTuningStore[] = "tuning";

cache::Use UseOf(const CompileOptions& options) {
  if (!options.caches_tuning()) return cache::Use::kNone;
  return options.ignore_beam_cache ? cache::Use::kReplace : cache::Use::kReadAndKeep;
}

}  // namespace

class TuningService::Turn {
 public:
  // `waits`: called if the caller does not get its turn at once.
  Turn(TuningService& service, const devices::Device& device, const WorkLimits& limits,
       const std::function<void()>& waits = nullptr)
      : service_(service) {
    MutexLock lock(service_.mu_);
    queue_ = &service_.queues_[device.info().processor];
    if (queue_->measuring && waits) waits();
    while (queue_->measuring) {
      lock.WaitUntil(service_.turn_ended_, std::chrono::steady_clock::now() + kPoll,
                     [&] { return !queue_->measuring; });
      if (queue_->measuring && !limits.Check().ok()) return;
    }
    held_ = queue_->measuring = true;
  }
  ~Turn() {
    if (!held_) return;
    {
      MutexLock lock(service_.mu_);
      queue_->measuring = false;
    }
    service_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  // CANCELLED: the caller gave up before it had its turn.
  absl::Status held() const {
    return held_ ? absl::OkStatus()
                 : absl::CancelledError("cancelled while another kernel was tuned");
  }

 private:
  static constexpr std::chrono::milliseconds kPoll{50};
  TuningService& service_;
  Queue* queue_ = nullptr;
  bool held_ = false;
};

TuningService::TuningService(Options options, cache::Store& store, KernelTuner* tuner)
    : options_(std::move(options)), store_(store), tuner_(tuner) {
  if (offered())
    subscription_.emplace(store.arrivals(), [this](const cache::Row& row) { Hear(row); });
}

void TuningService::Stop() {
  subscription_.reset();
  std::vector<PartPtr> dropped;
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    stopped_.store(true);
    for (auto& [processor, queue] : queues_) {
      std::ranges::move(queue.parts, std::back_inserter(dropped));
      queue.parts.clear();
      queue.wake.notify_all();
      if (queue.thread.joinable()) threads.push_back(std::move(queue.thread));
    }
    arrival_.notify_all();
    if (arrivals_thread_.joinable()) threads.push_back(std::move(arrivals_thread_));
  }
  for (std::thread& thread : threads) thread.join();
  for (const PartPtr& part : dropped) {
    metrics::TuneQueue().Add(-1);
    for (size_t i = 0; i < part->taken.size(); ++i) {
      const Taken ends(*this, *part, i);
    }
  }
  MutexLock lock(mu_);
  awaited_.clear();
  arrived_.clear();
}

cache::Key TuningService::KeyOf(std::string_view graph, const devices::Device& device,
                                const CompileOptions& options) const {
  return {kTuningStore, std::string(graph), tuner_->Environment(device, options)};
}

absl::StatusOr<TuningRecord> TuningService::Prove(std::string_view graph,
                                                  const devices::Device& device,
                                                  const CompileOptions& options, const Opts& opts,
                                                  const WorkLimits& limits) {
  if (!offered()) return absl::UnimplementedError("this daemon does not tune");
  const WorkLimits ends = limits.Or([&] { return stopped(); });
  if (!ends.Check().ok()) return absl::CancelledError("cancelled before a winner was run");
  const Turn turn(*this, device, ends);
  UOPD_TRY(turn.held());
  return tuner_->Prove(graph, device, options, opts, ends);
}

std::optional<TuningRecord> TuningService::ProveImported(const cache::Key& key,
                                                         const TuningTask::Kernel& kernel,
                                                         const CompileOptions& options,
                                                         const WorkLimits& limits) {
  if (UseOf(options) != cache::Use::kReadAndKeep) return std::nullopt;
  const cache::Key unproven = UnprovenKey(key);
  // No lookup: these rows belong to this daemon alone, and to no count.
  const auto row = store_.ReadRow(unproven.address());
  if (!row.ok() || !row->has_value() || !KeyMatches(**row, unproven) ||
      Checksum(**row) != (*row)->checksum)
    return std::nullopt;
  auto record = TuningRecord::Decode((*row)->value);
  if (absl::IsFailedPrecondition(record.status())) {
    Refuse(std::string(cache::kUnprovenStore), record.status());
    return std::nullopt;
  }
  if (record.ok()) {
    record = tuner_->Prove(kernel.graph, *kernel.device, options, record->opts, limits);
    if (!record.ok() && !IsWrongWinner(record.status())) return std::nullopt;
  }
  metrics::ImportedWinners({record.ok() ? "proven" : "refused"}).Increment();
  if (record.ok()) return *std::move(record);
  store_.Remove({&unproven.address(), 1}).IgnoreError();
  UOPD_LOG(kWarn, "an imported winner is refused", {"kernel", kernel.name},
           {"status", record.status()});
  return std::nullopt;
}

void TuningService::ForgetUnproven(const cache::Key& key) {
  // A daemon that is killed in between has both rows, and never none.
  if (!store_.Flush().ok()) return;
  const auto kept = store_.ReadRow(key.address());
  if (!kept.ok() || !kept->has_value()) return;
  const cache::Key unproven = UnprovenKey(key);
  store_.Remove({&unproven.address(), 1}).IgnoreError();
}

std::optional<TuningRecord> TuningService::Find(std::string_view graph,
                                                const devices::Device& device,
                                                const CompileOptions& options) {
  if (!offered() || options.beam == 0 || UseOf(options) != cache::Use::kReadAndKeep) {
    return std::nullopt;
  }
  const cache::GetResult found = store_.Get(KeyOf(graph, device, options));
  CountLookup(kTuningStore, found.outcome);
  if (!found.hit()) return std::nullopt;
  auto record = TuningRecord::Decode(found.entry.bytes);
  if (record.ok()) return *std::move(record);
  Refuse(kTuningStore, record.status());
  return std::nullopt;
}

void TuningService::Add(TuningTask task) {
  if (!offered()) return;
  // The queue of every processor gets a task with the kernels of that processor.
  std::map<std::string, TuningTask> parts;
  for (size_t i = 0; i < task.kernels.size(); ++i) {
    if (task.kernels[i].done) continue;
    auto [it, added] = parts.try_emplace(task.kernels[i].device->info().processor);
    if (added) {
      it->second = task;
      for (TuningTask::Kernel& kernel : it->second.kernels) kernel.done = true;
    }
    it->second.kernels[i].done = false;
  }
  std::vector<std::pair<std::string, PartPtr>> added;
  for (auto& [processor, one] : parts) {
    auto part = std::make_shared<Part>(std::move(one));
    for (size_t i = 0; i < part->taken.size(); ++i) {
      const TuningTask::Kernel& kernel = part->task.kernels[i];
      part->taken[i] = kernel.done;
      part->addresses.push_back(
          kernel.done ? Digest()
                      : KeyOf(kernel.graph, *kernel.device, part->task.options).address());
    }
    added.emplace_back(processor, std::move(part));
  }
  std::vector<PartPtr> dropped;
  const auto tell = [&] {
    for (const PartPtr& part : dropped) {
      if (part->task.observer == nullptr) continue;
      for (size_t i = 0; i < part->taken.size(); ++i) {
        if (part->task.kernels[i].done) continue;
        part->task.observer->Ended(
            i, absl::ResourceExhaustedError(Cat(kMaxQueued, " programs wait for tuning")), false);
      }
    }
  };
  {
    MutexLock lock(mu_);
    if (stopped()) return;
    for (auto& [processor, part] : added) {
      Queue& queue = queues_[processor];
      const auto left = static_cast<size_t>(
          std::ranges::count(part->task.kernels, false, &TuningTask::Kernel::done));
      if (queue.parts.size() >= kMaxQueued) {
        metrics::TuneKernels({"dropped"}).Increment(left);
        dropped.push_back(std::move(part));
        continue;
      }
      metrics::TuneQueue().Add(1);
      kernels_left_.fetch_add(left);
      for (size_t i = 0; i < part->taken.size(); ++i) {
        if (!part->taken[i]) awaited_[part->addresses[i]].emplace_back(part, i);
      }
      TellAhead(*part, queue.parts.size() + (queue.running ? 1 : 0));
      queue.parts.push_back(std::move(part));
      if (!queue.thread.joinable()) queue.thread = std::thread([this, &queue] { Work(queue); });
      queue.wake.notify_one();
    }
  }
  tell();
}

void TuningService::Forget(const PartPtr& part) {
  for (size_t i = 0; i < part->addresses.size(); ++i) {
    const auto it = awaited_.find(part->addresses[i]);
    if (it == awaited_.end()) continue;
    std::erase_if(it->second, [&](const auto& kernel) { return kernel.first == part; });
    if (it->second.empty()) awaited_.erase(it);
  }
}

void TuningService::TellAhead(const Part& part, size_t ahead) {
  if (part.task.observer == nullptr) return;
  const std::string what = ahead == 0   ? ""
                           : ahead == 1 ? "a program that is tuned before it"
                                        : Cat(ahead, " programs that are tuned before it");
  for (size_t i = 0; i < part.task.kernels.size(); ++i) {
    if (!part.task.kernels[i].done) part.task.observer->WaitsFor(i, what);
  }
}

void TuningService::Work(Queue& queue) {
  for (;;) {
    PartPtr part;
    bool last = false;
    {
      MutexLock lock(mu_);
      lock.Wait(queue.wake, [&]() UOPD_REQUIRES(mu_) { return stopped() || !queue.parts.empty(); });
      if (stopped()) return;
      part = std::move(queue.parts.front());
      queue.parts.pop_front();
      last = queue.parts.empty();
      queue.running = true;
      TellAhead(*part, 0);
      for (size_t i = 0; i < queue.parts.size(); ++i) TellAhead(*queue.parts[i], i + 1);
    }
    Run(queue, *part);
    metrics::TuneQueue().Add(-1);
    {
      MutexLock lock(mu_);
      queue.running = false;
      Forget(part);
    }
    if (last) RestAfter(queue, part->task);
  }
}

void TuningService::Hear(const cache::Row& row) {
  if (row.store != kTuningStore) return;
  const Digest address = cache::KeyOf(row).address();
  MutexLock lock(mu_);
  const auto it = awaited_.find(address);
  if (it == awaited_.end() || stopped()) return;
  arrived_.push_back({row.value, std::move(it->second)});
  awaited_.erase(it);
  if (!arrivals_thread_.joinable()) arrivals_thread_ = std::thread([this] { UseArrivals(); });
  arrival_.notify_one();
}

void TuningService::UseArrivals() {
  for (;;) {
    std::optional<Arrived> arrived;
    {
      MutexLock lock(mu_);
      lock.Wait(arrival_, [&]() UOPD_REQUIRES(mu_) { return stopped() || !arrived_.empty(); });
      if (stopped()) return;
      arrived.emplace(std::move(arrived_.front()));
      arrived_.pop_front();
    }
    auto record = TuningRecord::Decode(arrived->value);
    if (!record.ok()) continue;  // the threads of the queues will find out
    const absl::StatusOr<Obtained> obtained = Obtained{*std::move(record), true};
    for (const auto& [part, i] : arrived->kernels) {
      if (stopped() || !part->task.wanted()) continue;
      if (UseOf(part->task.options) != cache::Use::kReadAndKeep) continue;  // it wants its own
      if (const Taken taken(*this, *part, i); taken) Use(*part, i, obtained, 0).IgnoreError();
    }
  }
}

void TuningService::RestAfter(const Queue& queue, const TuningTask& task) {
  {
    MutexLock lock(mu_);
    if (!queue.parts.empty() || stopped()) return;
  }
  for (const TuningTask::Kernel& kernel : task.kernels) {
    if (!kernel.done) tuner_->Rest(*kernel.device);
  }
}

// The daemons of a cluster share the kernels of a program: each takes those that nobody else tunes,
// and waits for the others only at the end. On one machine they take turns, because two searches at
// once would disturb each other's times.
void TuningService::Run(Queue& queue, Part& part) {
  std::vector<size_t> left;
  for (size_t i = 0; i < part.taken.size(); ++i) {
    if (!part.task.kernels[i].done) left.push_back(i);
  }
  auto tune_all = [&](bool wait) {
    std::erase_if(left, [&](size_t i) {
      if (part.taken[i]) return true;  // its result arrived
      if (!stopped() && part.task.wanted() && !TuneOne(queue, part, i, wait)) {
        return false;
      }
      const Taken ends(*this, part, i);
      return true;
    });
  };
  tune_all(false);
  for (int tries = 1;; ++tries) {
    tune_all(true);
    if (left.empty()) return;
    Pause(queue, cache::SearchGate::PauseAfter(tries));
  }
}

void TuningService::Pause(Queue& queue, std::chrono::milliseconds pause) {
  MutexLock lock(mu_);
  lock.WaitUntil(queue.wake, std::chrono::steady_clock::now() + pause,
                 [&]() UOPD_REQUIRES(mu_) { return stopped(); });
}

bool TuningService::TuneOne(Queue& queue, Part& part, size_t i, bool wait) {
  const TuningTask& task = part.task;
  const TuningTask::Kernel& kernel = task.kernels[i];
  const cache::Key key = KeyOf(kernel.graph, *kernel.device, task.options);
  RecentFailures* const failures = options_.failures;
  std::optional<absl::Status> known;
  if (failures != nullptr) {
    known = failures->Find(FailureKind::kTuning, key.address());
  } else if (queue.failed.contains(key.address())) {
    known = absl::FailedPreconditionError("the kernel could not be tuned before");
  }
  if (known) {
    if (task.observer != nullptr) task.observer->Ended(i, *known, false);
    return true;
  }
  const int64_t begin_ns = NowNs();
  const auto obtained = Obtain(key, part, i, wait);
  if (absl::IsAborted(obtained.status())) return false;
  const double seconds = static_cast<double>(NowNs() - begin_ns) * 1e-9;
  const Taken taken(*this, part, i);
  if (!taken) return true;  // the result arrived while this thread waited for it
  const absl::Status used = Use(part, i, obtained, seconds);
  if (!used.ok() && !absl::IsCancelled(used)) {
    if (failures != nullptr) {
      failures->Add(FailureKind::kTuning, key.address(),
                    WithFrame(used, Cat("tuning ", kernel.name)));
    } else {
      if (queue.failed.size() >= kMaxQueued) queue.failed.clear();  // they are tried again
      queue.failed.insert(key.address());
    }
  }
  return true;
}

absl::Status TuningService::Use(Part& part, size_t i, const absl::StatusOr<Obtained>& obtained,
                                double seconds) {
  const TuningTask& task = part.task;
  const TuningTask::Kernel& kernel = task.kernels[i];
  absl::Status status = obtained.status();
  if (status.ok()) status = task.use(i, obtained->record);
  if (task.observer != nullptr) {
    if (status.ok()) {
      task.observer->Ended(i, obtained->record, obtained->found);
    } else {
      task.observer->Ended(i, status, false);
    }
  }
  if (absl::IsCancelled(status)) {
    metrics::TuneKernels({"cancelled"}).Increment();
    return status;
  }
  if (!status.ok()) {
    metrics::TuneKernels({"failed"}).Increment();
    UOPD_LOG(kWarn, "a kernel could not be tuned", {"kernel", kernel.name}, {"status", status});
    return status;
  }
  metrics::TuneKernels({obtained->found ? "found" : "tuned"}).Increment();
  if (!obtained->found) metrics::TuneDuration().Observe(seconds);
  const TuningRecord& record = obtained->record;
  UOPD_LOG(kInfo, "kernel tuned", {"kernel", kernel.name}, {"beam", task.options.beam},
           {"opts", Text(record.opts)}, {"us", record.seconds * 1e6},
           {"heuristic_us", record.heuristic_seconds * 1e6}, {"measured", record.measured},
           {"failed", record.failed}, {"found", obtained->found}, {"took_s", seconds});
  return absl::OkStatus();
}

void TuningService::AwaitWorkers(const TuningTask& task, size_t i, const WorkLimits& limits) {
  constexpr std::chrono::seconds kLimit{20};
  constexpr std::chrono::milliseconds kLook{50};
  const auto until = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < until && limits.Check().ok()) {
    const std::string why = tuner_->Unready();
    if (why.empty()) return;
    task.observer->WaitsFor(i, Cat("a worker process: ", why));
    std::this_thread::sleep_for(kLook);
  }
}

absl::StatusOr<TuningRecord> TuningService::Search(const TuningTask& task, size_t i,
                                                   const WorkLimits& limits) {
  const TuningTask::Kernel& kernel = task.kernels[i];
  SearchControl control{.work = limits};
  if (task.observer == nullptr)
    return tuner_->Tune(kernel.graph, *kernel.device, task.options, control);
  AwaitWorkers(task, i, limits);
  const auto budget = task.observer->Begin(i);
  if (!budget.ok()) return absl::CancelledError(budget.status().message());
  control.limits = *budget;
  control.progress = [&](const search::Trial& trial) { task.observer->Tried(i, trial); };
  control.left_out = [&](uint64_t pruned, uint64_t duplicates) {
    task.observer->LeftOut(i, pruned, duplicates);
  };
  auto found = tuner_->Tune(kernel.graph, *kernel.device, task.options, control);
  // The observer's limit is not the fault of the kernel, which must not count as one that cannot be
  // tuned.
  if (absl::IsDeadlineExceeded(found.status()) && budget->time != std::chrono::milliseconds::max())
    return absl::CancelledError("the budget was used up before a winner was checked");
  return found;
}

absl::StatusOr<TuningService::Obtained> TuningService::Obtain(const cache::Key& key, Part& part,
                                                              size_t i, bool wait) {
  const TuningTask& task = part.task;
  const TuningTask::Kernel& kernel = task.kernels[i];
  // A result that arrives ends the search for it.
  cache::LoadOptions load{
      .limits = {.cancelled =
                     [&] {
                       return stopped() || part.taken[i] ||
                              (task.observer != nullptr && task.observer->cancelled());
                     }},
      .lease_ttl_us = options_.lease_us,
      .owner = options_.owner,
      .patience = options_.patience,
      .patient = true,
      .may_compute =
          [&] {
            absl::Status may = options_.gate.MaySearch(store_.maybe_cluster());
            if (!may.ok() && task.observer != nullptr)
              task.observer->WaitsFor(i, Cat("the cluster: ", StatusText(may)));
            return may;
          },
      .strict_lease = store_.maybe_cluster() != nullptr && store_.maybe_cluster()->coordinates(),
      .use = UseOf(task.options)};
  if (!wait || task.observer != nullptr) {
    load.waits_for = [&, wait](std::string_view holder) {
      if (task.observer != nullptr)
        task.observer->WaitsFor(i, Cat("the daemon ", holder, ", which tunes it"));
      return wait || OnOneMachine(holder, options_.owner);
    };
  }
  bool was_imported = false;
  auto tune = [&](const WorkLimits& limits) -> absl::StatusOr<std::string> {
    const Turn turn(*this, *kernel.device, limits, [&] {
      if (task.observer != nullptr)
        task.observer->WaitsFor(i, "another kernel that is measured on its processor");
    });
    UOPD_TRY(turn.held());
    if (auto proven = ProveImported(key, kernel, task.options, limits)) {
      was_imported = true;
      return proven->Encode();
    }
    const auto record = Search(task, i, limits);
    // A worker that died. Of a load ABORTED says that somebody else tunes the kernel.
    if (absl::IsAborted(record.status())) return absl::InternalError(StatusText(record.status()));
    UOPD_TRY(record.status());
    return record->Encode();
  };
  for (;;) {
    UOPD_ASSIGN(const cache::Loaded loaded, flights_.LoadOrCompute(store_, key, load, tune));
    if (std::exchange(was_imported, false)) ForgetUnproven(key);
    if (load.use == cache::Use::kReadAndKeep) CountLookup(kTuningStore, loaded.lookup);
    const bool found = loaded.outcome != cache::LoadOutcome::kComputed;
    auto record = TuningRecord::Decode(*loaded.bytes);
    if (record.ok()) return Obtained{*std::move(record), found};
    if (!found || load.use != cache::Use::kReadAndKeep) return record.status();
    Refuse(kTuningStore, record.status());
    load.use = cache::Use::kReplace;
  }
}

}  // namespace uopd::engine
