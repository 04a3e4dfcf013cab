// SPDX-License-Identifier: MIT
#include "server/engine/operate/tune_operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "cache/base/blobs.h"
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

std::string Short(std::string text) {
  if (text.size() > TunedKernelState::kMaxText) text.resize(TunedKernelState::kMaxText);
  return text;
}

// A search that used this much of its time ended because of it: the last part of a tuning checks
// the winner (worker/tune/tune_kernel.h).
constexpr double kUsedUp = 0.7;

}  // namespace

TuneOperation::TuneOperation(TuneState state)
    : id_(state.id), tenant_(state.tenant), request_id_(state.request_id) {
  MutexLock lock(mu_);
  state_ = std::move(state);
  live_.resize(state_.kernels.size());
  TouchHead();
  for (size_t i = 0; i < live_.size(); ++i) Touch(i);
}

void TuneOperation::TouchHead() { head_version_ = version_.fetch_add(1) + 1; }

void TuneOperation::Touch(size_t kernel) { live_[kernel].version = version_.fetch_add(1) + 1; }

TunePhase TuneOperation::phase() const {
  MutexLock lock(mu_);
  return state_.phase;
}

TuneState TuneOperation::Copy() const {
  MutexLock lock(mu_);
  TuneState out = state_;
  out.spent_us = SpentUs();
  return out;
}

void TuneOperation::Fill(TuneChanges& out) const {
  out.any = true;
  out.kernels = state_.kernels.size();
  out.host = host_;
  for (const TunedKernelState& k : state_.kernels) {
    ++out.counts[static_cast<size_t>(k.phase)];
    out.pruned += k.pruned;
    out.duplicates += k.duplicates;
    if (k.phase == KernelPhase::kWaiting && out.waits_for.empty()) out.waits_for = k.detail;
  }
  if (out.counts[static_cast<size_t>(KernelPhase::kSearching)] > 0) out.waits_for.clear();
  // The head is copied without the kernels, which may be many.
  TuneState& head = out.head;
  head.id = state_.id, head.tenant = state_.tenant, head.title = state_.title;
  head.graph = state_.graph, head.options = state_.options;
  head.budget_us = state_.budget_us, head.budget_candidates = state_.budget_candidates;
  head.created_us = state_.created_us, head.ended_us = state_.ended_us;
  head.phase = state_.phase, head.error = state_.error, head.attempts = state_.attempts;
  head.spent_us = SpentUs(), head.candidates = state_.candidates;
}

TuneChanges TuneOperation::Summary() const {
  MutexLock lock(mu_);
  TuneChanges out;
  Fill(out);
  return out;
}

TuneChanges TuneOperation::Changes(TuneCursor& cursor) const {
  MutexLock lock(mu_);
  TuneChanges out;
  if (cursor.plans != plans_) {
    out.replan = cursor.plans != 0;
    cursor.plans = plans_;
    cursor.kernels.assign(state_.kernels.size(), {});
    cursor.head = 0;
  }
  for (size_t i = 0; i < state_.kernels.size(); ++i) {
    TuneCursor::Kernel& seen = cursor.kernels[i];
    if (seen.version == live_[i].version) continue;
    if (out.changed.size() == TuneChanges::kMaxKernels) {
      out.more = true;
      break;
    }
    const TunedKernelState& k = state_.kernels[i];
    TunedKernelState& copy = out.changed.emplace_back(i, k).second;
    if (seen.search == k.search) {
      std::erase_if(copy.points,
                    [&](const TunePoint& point) { return point.candidate <= seen.candidate; });
    }
    seen = {live_[i].version, k.search, k.points.empty() ? 0 : k.points.back().candidate};
  }
  if (out.changed.empty() && cursor.head == head_version_) return out;
  cursor.head = head_version_;
  Fill(out);
  return out;
}

std::vector<size_t> TuneOperation::Run(const TuningPlan& plan,
                                       const std::vector<std::optional<TuningRecord>>& found) {
  MutexLock lock(mu_);
  if (cancelled() || IsOver(state_.phase)) return {};
  std::map<std::pair<Digest, std::string>, TunedKernelState> known;
  for (TunedKernelState& k : state_.kernels) {
    known.emplace(std::pair(k.graph, k.device), std::move(k));
  }
  state_.kernels.clear();
  std::vector<size_t> left;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const TuningPlan::Kernel& planned = plan.kernels[i];
    const std::string& device = plan.DeviceOf(i).info().name;
    const auto it = known.find({planned.graph, device});
    TunedKernelState& k =
        state_.kernels.emplace_back(it == known.end() ? TunedKernelState() : std::move(it->second));
    k.graph = planned.graph;
    k.name = Short(planned.name);
    k.device = device;
    k.launches = planned.launches;
    k.estimate_s = planned.estimate_s;
    // Somebody else may have found another winner since.
    if (found[i]) {
      if (k.phase != KernelPhase::kTuned) k.phase = KernelPhase::kFound;
      k.opts = Short(Text(found[i]->opts));
      k.best_s = found[i]->seconds;
      k.heuristic_s = found[i]->heuristic_seconds;
      if (k.points.empty()) {
        k.measured = static_cast<uint64_t>(std::max<int64_t>(found[i]->measured, 0));
        k.failed = static_cast<uint64_t>(std::max<int64_t>(found[i]->failed, 0));
      }
      k.detail.clear();
      continue;
    }
    // A request that ignores what the cache has keeps what this operation found itself.
    const bool done = state_.options.ignore_beam_cache && k.phase == KernelPhase::kTuned;
    if (done) continue;
    k.phase = KernelPhase::kPending;
    k.detail.clear();
    left.push_back(i);
  }
  std::ranges::sort(left, {}, [&](size_t i) UOPD_REQUIRES(mu_) {
    return std::pair(-state_.kernels[i].Weight(), i);
  });
  live_.assign(state_.kernels.size(), {});
  for (size_t i = 0; i < live_.size(); ++i) Touch(i);
  ++plans_;
  state_.phase = TunePhase::kRunning;
  TouchHead();
  EndIfDone();
  return left;
}

void TuneOperation::End(TunePhase phase) {
  state_.phase = phase;
  state_.ended_us = cache::WallClockUs();
  host_.clear();
  stop_.store(true);
  TouchHead();
}

void TuneOperation::EndIfDone() {
  if (state_.phase != TunePhase::kRunning) return;
  const bool open = std::ranges::any_of(state_.kernels,
                                        [](const TunedKernelState& k) { return !IsOver(k.phase); });
  if (!open) End(TunePhase::kDone);
}

void TuneOperation::StopAll() {
  for (size_t i = 0; i < live_.size(); ++i) {
    TunedKernelState& k = state_.kernels[i];
    if (IsOver(k.phase) || k.phase == KernelPhase::kPending) continue;
    EndSearch(i);
    k.phase = KernelPhase::kPending;
    k.detail.clear();
    k.trying.clear();
    Touch(i);
  }
}

void TuneOperation::Fail(const absl::Status& why) {
  MutexLock lock(mu_);
  if (IsOver(state_.phase)) return;
  StopAll();
  state_.error = Short(StatusText(why));
  End(TunePhase::kFailed);
}

void TuneOperation::Interrupt(std::string why) {
  MutexLock lock(mu_);
  if (IsOver(state_.phase)) return;
  StopAll();
  state_.error = Short(std::move(why));
  End(TunePhase::kInterrupted);
}

absl::Status TuneOperation::Cancel() {
  MutexLock lock(mu_);
  if (IsOver(state_.phase)) {
    return absl::FailedPreconditionError(
        Cat("tuning ", id_, " is ", Name(state_.phase), " already"));
  }
  StopAll();
  End(TunePhase::kCancelled);
  return absl::OkStatus();
}

absl::StatusOr<TuneState> TuneOperation::Resumed(int64_t more_budget_us,
                                                 uint64_t more_candidates) const {
  MutexLock lock(mu_);
  if (!IsOver(state_.phase)) {
    return absl::FailedPreconditionError(
        Cat("tuning ", id_, " is ", Name(state_.phase), ", so it cannot be resumed"));
  }
  const auto left_out = [](const TunedKernelState& k) {
    return k.phase == KernelPhase::kSkipped || k.phase == KernelPhase::kFailed;
  };
  if (state_.phase == TunePhase::kDone && std::ranges::none_of(state_.kernels, left_out)) {
    return absl::FailedPreconditionError(
        Cat("tuning ", id_, " is done: it has left no kernel out"));
  }
  TuneState out = state_;
  // A budget that was used up would end the new attempt at once.
  if (out.budget_us > 0) out.budget_us += more_budget_us;
  if (out.budget_candidates > 0)
    out.budget_candidates +=
        std::min(more_candidates, std::numeric_limits<uint64_t>::max() - out.budget_candidates);
  const bool time_over = out.budget_us > 0 && out.spent_us >= out.budget_us;
  const bool candidates_over = out.budget_candidates > 0 && out.candidates >= out.budget_candidates;
  if (time_over || candidates_over) {
    return absl::FailedPreconditionError(Cat("tuning ", id_, " has used up its budget of ",
                                             time_over ? "time" : "candidates", ": give it more"));
  }
  out.phase = TunePhase::kPlanning;
  out.error.clear();
  out.attempts = 0;
  out.ended_us = 0;
  return out;
}

void TuneOperation::CountAttempt() {
  MutexLock lock(mu_);
  ++state_.attempts;
  TouchHead();
}

void TuneOperation::Pause() {
  MutexLock lock(mu_);
  stop_.store(true);
  if (IsOver(state_.phase)) return;
  StopAll();
  state_.attempts = 0;
  TouchHead();
}

void TuneOperation::Replace(TuneState state) {
  MutexLock lock(mu_);
  if (IsOver(state_.phase)) return;  // cancelled here meanwhile
  const bool replan = state.kernels.size() != state_.kernels.size();
  state_ = std::move(state);
  live_.resize(state_.kernels.size());
  for (size_t i = 0; i < live_.size(); ++i) Touch(i);
  if (replan) ++plans_;
  TouchHead();
}

void TuneOperation::set_host(std::string host) {
  MutexLock lock(mu_);
  if (host_ == host) return;
  host_ = std::move(host);
  TouchHead();
}

int64_t TuneOperation::SpentUs() const {
  int64_t out = state_.spent_us;
  for (const Live& live : live_) {
    if (live.since_ns != 0) out += (NowNs() - live.since_ns) / 1000;
  }
  return out;
}

void TuneOperation::EndSearch(size_t kernel) {
  Live& live = live_[kernel];
  if (live.since_ns == 0) return;
  const int64_t us = (NowNs() - live.since_ns) / 1000;
  live.since_ns = 0;
  TunedKernelState& k = state_.kernels[kernel];
  k.search_us += us;
  state_.spent_us += us;
  const bool of_time =
      live.limits.time != std::chrono::milliseconds::max() &&
      static_cast<double>(us) >= kUsedUp * 1e3 * static_cast<double>(live.limits.time.count());
  k.limited = of_time || k.measured + k.failed >= static_cast<uint64_t>(live.limits.candidates);
}

size_t TuneOperation::PointLimit() const {
  return std::clamp<size_t>(kMaxPoints / std::max<size_t>(state_.kernels.size(), 1), 2,
                            kMaxPointsOfKernel);
}

SearchLimits TuneOperation::ShareOf(size_t kernel) const {
  double weight = 0, open = 0;
  for (const TunedKernelState& k : state_.kernels) {
    if (!IsOver(k.phase)) weight += k.Weight(), ++open;
  }
  const double share =
      weight > 0 ? state_.kernels[kernel].Weight() / weight : 1 / std::max(open, 1.0);
  SearchLimits out;
  if (state_.budget_us > 0) {
    const auto left = std::chrono::microseconds(state_.budget_us - SpentUs());
    const auto mine =
        std::chrono::microseconds(static_cast<int64_t>(static_cast<double>(left.count()) * share));
    out.time = std::chrono::ceil<std::chrono::milliseconds>(std::max<std::chrono::microseconds>(
        mine, std::min<std::chrono::microseconds>(left, kLeastTime)));
  }
  if (state_.budget_candidates > 0) {
    const double left = static_cast<double>(state_.budget_candidates - state_.candidates);
    const double most = std::numeric_limits<int>::max();
    out.candidates = static_cast<int>(
        std::min(most, std::max(left * share, std::min<double>(left, kLeastCandidates))));
  }
  return out;
}

absl::StatusOr<SearchLimits> TuneOperation::Begin(size_t kernel) {
  MutexLock lock(mu_);
  if (cancelled() || kernel >= live_.size()) return absl::CancelledError("the operation ended");
  TunedKernelState& k = state_.kernels[kernel];
  const bool over = (state_.budget_us > 0 && SpentUs() >= state_.budget_us) ||
                    (state_.budget_candidates > 0 && state_.candidates >= state_.budget_candidates);
  if (over) return absl::ResourceExhaustedError("the budget is used up");
  const SearchLimits limits = ShareOf(kernel);
  live_[kernel].since_ns = NowNs();
  live_[kernel].limits = limits;
  k.phase = KernelPhase::kSearching;
  k.detail.clear();
  k.opts.clear();
  k.best_s = std::numeric_limits<double>::infinity();
  k.measured = k.failed = k.pruned = k.duplicates = 0;
  k.points.clear();
  ++k.search;
  Touch(kernel);
  return limits;
}

void TuneOperation::Tried(size_t kernel, const search::Trial& trial) {
  MutexLock lock(mu_);
  if (cancelled() || kernel >= live_.size() || live_[kernel].since_ns == 0) return;
  TunedKernelState& k = state_.kernels[kernel];
  const bool first = k.measured + k.failed == 0;
  if (trial.outcome == search::Trial::kMeasured) {
    ++k.measured;
  } else {
    ++k.failed;
  }
  const auto number = static_cast<uint32_t>(k.measured + k.failed);
  if (!trial.remembered) ++state_.candidates;
  k.trying = Short(Text(trial.opts));
  if (trial.outcome == search::Trial::kMeasured && std::isfinite(trial.seconds)) {
    if (first) k.heuristic_s = trial.seconds;  // the search begins with the heuristic's choice
    if (trial.seconds < k.best_s) {
      k.best_s = trial.seconds;
      k.opts = k.trying;
    }
    k.AddPoint({number, trial.seconds}, PointLimit());
  }
  Touch(kernel);
}

void TuneOperation::LeftOut(size_t kernel, uint64_t pruned, uint64_t duplicates) {
  MutexLock lock(mu_);
  if (cancelled() || kernel >= live_.size() || live_[kernel].since_ns == 0) return;
  TunedKernelState& k = state_.kernels[kernel];
  k.pruned = pruned;
  k.duplicates = duplicates;
  Touch(kernel);
}

void TuneOperation::WaitsFor(size_t kernel, std::string_view what) {
  MutexLock lock(mu_);
  if (cancelled() || kernel >= live_.size()) return;
  TunedKernelState& k = state_.kernels[kernel];
  const KernelPhase phase = what.empty() ? KernelPhase::kPending : KernelPhase::kWaiting;
  if (IsOver(k.phase) || k.phase == KernelPhase::kSearching) return;
  if (k.phase == phase && k.detail == what) return;
  k.phase = phase;
  k.detail = Short(std::string(what));
  Touch(kernel);
}

void TuneOperation::Ended(size_t kernel, const absl::StatusOr<TuningRecord>& result, bool found) {
  MutexLock lock(mu_);
  if (cancelled() || kernel >= live_.size()) return;
  TunedKernelState& k = state_.kernels[kernel];
  if (IsOver(k.phase)) return;
  EndSearch(kernel);
  k.trying.clear();
  k.detail.clear();
  if (result.ok()) {
    k.phase = found ? KernelPhase::kFound : KernelPhase::kTuned;
    k.opts = Short(Text(result->opts));
    k.best_s = result->seconds;
    k.heuristic_s = result->heuristic_seconds;
    if (k.points.empty()) {  // the search was another daemon's
      k.measured = static_cast<uint64_t>(std::max<int64_t>(result->measured, 0));
      k.failed = static_cast<uint64_t>(std::max<int64_t>(result->failed, 0));
    }
    state_.attempts = std::min(state_.attempts, 1);  // the daemon gets somewhere with it
  } else {
    // What ends a search and is no error of the kernel comes from this operation's own limits.
    const bool skipped = absl::IsCancelled(result.status());
    k.phase = skipped ? KernelPhase::kSkipped : KernelPhase::kFailed;
    k.detail =
        Short(skipped ? std::string(result.status().message()) : StatusText(result.status()));
  }
  Touch(kernel);
  TouchHead();
  EndIfDone();
}

}  // namespace uopd::engine
