// SPDX-License-Identifier: MIT
#include "core/search/beam.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/search/stage_time.h"
#include "core/search/surrogate.h"
#include "core/search/too_long.h"

namespace uopd::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A list of opts as a key for seen_opts_.
std::string KeyOf(const Opts& opts) {
  std::string out;
  for (const codegen::Opt& opt : opts) {
    PutVarint(out, static_cast<uint64_t>(opt.kind));
    PutSigned(out, opt.axis);
    PutSigned(out, opt.amount);
  }
  return out;
}

// Candidates that are made in one step, for each one that is measured: each costs a lowering.
constexpr int kMadePerMeasured = 6;
constexpr int kLevels = 2;           // of neighbours that a step looks ahead
constexpr double kHope = 0.5;        // deviations by which a candidate may be better than expected
constexpr double kDoubt = 2;         // deviations by which one that is left out may be better
constexpr int kKnown = 16;           // trials before any candidate is left out
constexpr double kClear = 1;         // and is still slower by this, of log2(time)
constexpr float kOptsWeight = 0.5F;  // of the opts of a candidate beside what its program tells

class Search {
 public:
  Search(const ir::UOpContext& ctx, ir::UOp sink, const Target& target, const BeamOptions& options,
         Measurer& measurer)
      : ctx_(ctx),
        sink_(sink),
        target_(target),
        options_(options),
        measurer_(measurer),
        kernel_(InfoOf(ctx, sink)) {}

  absl::StatusOr<SearchResult> Run() {
    Start();
    if (out_.Ranking().empty()) {
      if (out_.stop == StopReason::kCancelled) return absl::CancelledError("tuning was cancelled");
      if (out_.stop == StopReason::kDeadline) {
        return absl::DeadlineExceededError("the deadline passed before a kernel was measured");
      }
      return first_error_;
    }
    int idle = 0;  // steps without progress
    for (step_ = 1; !stopped_; ++step_) {
      const double before = best_seconds_;
      Grow();
      if (stopped_) break;
      const size_t trials = out_.trials.size();
      Choose();
      Flush();
      if (options_.stepped) options_.stepped(out_);
      idle = best_seconds_ < before * (1 - options_.min_progress) ? 0 : idle + 1;
      if (stopped_) break;
      if (out_.trials.size() == trials)
        Stop(pool_.empty() && frontier_.empty() ? StopReason::kExhausted : StopReason::kConverged);
      else if (idle >= options_.patience)
        Stop(StopReason::kConverged);
      else if (static_cast<int>(out_.trials.size()) >= options_.max_candidates)
        Stop(StopReason::kBudget);
    }
    // What this search learned counts from the next one on: its own prior stays as it is.
    if (options_.model != nullptr) {
      for (const auto& [features, log_ratio] : learned_)
        options_.model->Observe(first_->first, features, log_ratio);
    }
    const Trial* best = out_.Ranking().front();
    out_.best = best->opts;
    out_.seconds = best->seconds;
    if (options_.stepped) options_.stepped(out_);
    return std::move(out_);
  }

 private:
  // A candidate that was made and not measured.
  struct Waiting {
    Candidate candidate;
    std::vector<float> features, list;
    bool expanded = false;
  };

  void Start() {
    // The heuristic's choice first: it wins ties, and it is measured even if time is short.
    codegen::Options options;
    options.fast_math = options_.fast_math;
    out_.heuristic_seconds = kInfinity;
    if (options_.from_heuristic) {
      if (auto made = Make(options, SIZE_MAX)) batch_.push_back(*std::move(made));
      Flush();
      if (!out_.trials.empty()) out_.heuristic_seconds = out_.trials.front().seconds;
    }
    options.noopt = true;
    if (stopped_ || Full()) return;
    if (auto made = Make(options, options_.max_lines)) batch_.push_back(*std::move(made));
    Flush();
  }

  // Makes the most promising neighbours of the best candidates, and of the best ones among those that are not measured.
  void Grow() {
    for (int level = 0; level < kLevels && !stopped_; ++level) {
      if (level == 0) ExpandMeasured();
      ExpandWaiting();
      MakeSome(kMadePerMeasured * options_.batch / kLevels);
    }
  }

  void ExpandMeasured() {
    int left = std::max(options_.width, 1);
    for (const Trial* trial : out_.Ranking()) {
      if (left-- == 0) break;
      if (expanded_.insert(KeyOf(trial->opts)).second) Expand(trial->opts);
    }
  }

  void ExpandWaiting() {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (!pool_[i].expanded) order.emplace_back(Hope(programs_.Predict(pool_[i].features)), i);
    }
    std::ranges::sort(order);
    order.resize(std::min(order.size(), static_cast<size_t>(std::max(options_.width, 1))));
    for (const auto& [hope, i] : order) {
      pool_[i].expanded = true;
      if (expanded_.insert(KeyOf(pool_[i].candidate.opts)).second) Expand(pool_[i].candidate.opts);
    }
  }

  // Adds the neighbours of `parent` that are new to the frontier.
  void Expand(const Opts& parent) {
    for (Opts& next : Neighbours(kernel_, target_, parent)) {
      if (UnrolledElements(kernel_.axes, next) > options_.max_unrolled) continue;
      if (seen_opts_.insert(KeyOf(next)).second) frontier_.push_back(std::move(next));
    }
  }

  // Makes candidates of the frontier: three quarters of them those that the model of opts expects most of, the others from
  // all over it.
  void MakeSome(int count) {
    std::erase_if(frontier_, [&](const Opts& opts) { return too_long_.Covers(opts); });
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < frontier_.size(); ++i)
      order.emplace_back(Hope(lists_.Predict(FeaturesOf(kernel_, frontier_[i]))), i);
    std::ranges::sort(order);
    std::vector<size_t> chosen;
    const auto wanted = std::min<size_t>(static_cast<size_t>(count), order.size());
    for (size_t i = 0; i < wanted; ++i) {
      const bool anywhere = i % 4 == 3;
      const size_t at = anywhere ? i + Random() % (order.size() - i) : i;
      std::swap(order[i], order[at]);
      chosen.push_back(order[i].second);
    }
    std::ranges::sort(chosen);
    std::vector<absl::StatusOr<Candidate>> made = LowerAll(chosen);
    if (stopped_) return;
    for (size_t k = 0; k < chosen.size(); ++k) {
      auto candidate = Sift(std::move(made[k]), frontier_[chosen[k]]);
      if (!candidate) continue;
      std::vector<float> features = AllFeatures(*candidate),
                         list = FeaturesOf(kernel_, candidate->opts);
      pool_.push_back({*std::move(candidate), std::move(features), std::move(list)});
    }
    for (size_t i = chosen.size(); i-- > 0;)
      frontier_.erase(frontier_.begin() + static_cast<std::ptrdiff_t>(chosen[i]));
  }

  // Moves the most promising of those that wait into the batch: by turns those that one model and the other expects most
  // of, so that none of them leads alone. What both expect to be clearly slower than the best stays.
  void Choose() {
    const double most = std::log2(best_seconds_) + kClear;
    std::vector<std::pair<double, size_t>> by_program, by_list;
    for (size_t i = 0; i < pool_.size(); ++i) {
      const Surrogate::Prediction program = programs_.Predict(pool_[i].features),
                                  list = lists_.Predict(pool_[i].list);
      const bool slower = program.mean - kDoubt * program.deviation > most &&
                          list.mean - kDoubt * list.deviation > most;
      if (slower && static_cast<int>(out_.trials.size()) >= kKnown) continue;
      by_program.emplace_back(Hope(program), i);
      by_list.emplace_back(Hope(list), i);
    }
    std::ranges::sort(by_program);
    std::ranges::sort(by_list);
    const auto left =
        static_cast<size_t>(options_.max_candidates - static_cast<int>(out_.trials.size()));
    const size_t wanted = std::min({by_program.size(), static_cast<size_t>(options_.batch), left});
    std::set<size_t> chosen;
    for (size_t k = 0; chosen.size() < wanted; ++k) {
      chosen.insert(by_program[k].second);
      if (chosen.size() < wanted) chosen.insert(by_list[k].second);
    }
    out_.pruned = static_cast<int>(pool_.size() - chosen.size());
    for (const size_t i : chosen) batch_.push_back(std::move(pool_[i].candidate));
    for (auto i = chosen.rbegin(); i != chosen.rend(); ++i)
      pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(*i));
  }

  absl::StatusOr<Candidate> Lower(const codegen::Options& options, size_t max_lines) const {
    const StageTime time("lower");
    return MakeCandidate(ctx_, sink_, target_, options, max_lines);
  }

  // The candidates of these lists of the frontier, in this order, by several threads. Only this thread asks for the time. What
  // comes back is not complete if the search was stopped.
  std::vector<absl::StatusOr<Candidate>> LowerAll(std::span<const size_t> chosen) {
    std::vector<absl::StatusOr<Candidate>> out(chosen.size());
    std::atomic<size_t> next{0};
    std::atomic<bool> stopped{false};
    const auto lower = [&] {
      const size_t k = next.fetch_add(1);
      if (k >= chosen.size() || stopped) return false;
      codegen::Options options;
      options.fast_math = options_.fast_math;
      options.opts = &frontier_[chosen[k]];
      out[k] = Lower(options, options_.max_lines);
      return true;
    };
    std::vector<std::thread> threads;
    const size_t count =
        std::min(chosen.size(), static_cast<size_t>(std::max(1, options_.threads)));
    for (size_t i = 1; i < count; ++i) {
      threads.emplace_back([&] {
        if (options_.on_thread) options_.on_thread();
        while (lower()) {
        }
      });
    }
    while (CheckTime() && lower()) {
    }
    stopped = stopped_;
    for (std::thread& thread : threads) thread.join();
    return out;
  }

  // One of the starting points.
  std::optional<Candidate> Make(const codegen::Options& options, size_t max_lines) {
    if (!CheckTime()) return std::nullopt;
    return Sift(Lower(options, max_lines), {});
  }

  // The candidate, if codegen made it and its text is new.
  std::optional<Candidate> Sift(absl::StatusOr<Candidate> candidate, const Opts& opts) {
    if (!candidate.ok()) {
      ++out_.illegal;
      if (first_error_.ok()) first_error_ = candidate.status();
      if (absl::IsResourceExhausted(candidate.status()) && !opts.empty()) too_long_.Add(opts);
      return std::nullopt;
    }
    seen_opts_.insert(KeyOf(candidate->opts));
    if (!seen_text_.insert(candidate->digest).second) {
      ++out_.duplicates;
      return std::nullopt;
    }
    return *std::move(candidate);
  }

  // Measures those of the batch that the book does not have.
  void Flush() {
    // After a deadline or a cancellation do not measure it.
    if (stopped_) batch_.clear();
    if (batch_.empty()) return;
    std::vector<Candidate> unknown;
    for (Candidate& candidate : batch_) {
      const auto known =
          options_.book != nullptr ? options_.book->Find(candidate.digest) : std::nullopt;
      if (known)
        Take(candidate, *known, true);
      else
        unknown.push_back(std::move(candidate));
    }
    batch_.clear();
    if (!unknown.empty()) {
      const auto times = measurer_.Measure(unknown, best_seconds_);
      UOPD_CHECK(times.size() == unknown.size());
      for (size_t i = 0; i < unknown.size(); ++i) Take(unknown[i], times[i], false);
    }
    CheckTime();
  }

  // Adds a trial, and teaches the models.
  void Take(const Candidate& candidate, const absl::StatusOr<double>& time, bool remembered) {
    Trial trial;
    trial.opts = candidate.opts;
    trial.round = step_;
    trial.remembered = remembered;
    if (!time.ok() || !(*time >= 0) || std::isinf(*time)) {
      trial.outcome = Trial::kFailed;
      trial.error = time.ok() ? "the time is not a number" : time.status().ToString();
      if (first_error_.ok())
        first_error_ = time.ok() ? absl::InternalError(trial.error) : time.status();
    } else {
      trial.seconds = *time;
      best_seconds_ = std::min(best_seconds_, trial.seconds);
      const double log_time = std::log2(std::max(trial.seconds, 1e-9));
      programs_.Observe(AllFeatures(candidate), log_time);
      lists_.Observe(FeaturesOf(kernel_, trial.opts), log_time);
      if (options_.book != nullptr) options_.book->Add(candidate.digest, trial.seconds);
      if (!first_)
        first_ = {candidate.features, log_time};
      else
        learned_.emplace_back(candidate.features, log_time - first_->second);
    }
    if (options_.progress) options_.progress(trial);
    out_.trials.push_back(std::move(trial));
  }

  static double Hope(const Surrogate::Prediction& p) { return p.mean - kHope * p.deviation; }

  std::vector<float> AllFeatures(const Candidate& candidate) const {
    std::vector<float> out(candidate.features.begin(), candidate.features.end());
    for (const float x : FeaturesOf(kernel_, candidate.opts)) out.push_back(kOptsWeight * x);
    return out;
  }

  uint64_t Random() {  // xorshift64
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    return random_ ^= random_ << 17;
  }

  bool Full() const { return static_cast<int>(out_.trials.size()) >= options_.max_candidates; }

  bool CheckTime() {
    if (!stopped_ && options_.cancelled && options_.cancelled()) Stop(StopReason::kCancelled);
    if (!stopped_ && std::chrono::steady_clock::now() >= options_.deadline) {
      Stop(StopReason::kDeadline);
    }
    return !stopped_;
  }

  void Stop(StopReason reason) {
    if (stopped_) return;
    stopped_ = true;
    out_.stop = reason;
  }

  const ir::UOpContext& ctx_;
  const ir::UOp sink_;
  const Target& target_;
  const BeamOptions& options_;
  Measurer& measurer_;
  const KernelInfo kernel_;

  SearchResult out_;
  bool stopped_ = false;
  int step_ = 0;
  double best_seconds_ = kInfinity;
  absl::Status first_error_;
  uint64_t random_ = 0x9E3779B97F4A7C15;
  CostModel own_model_;  // if the caller has none
  const CostModel& model_ = options_.model != nullptr ? *options_.model : own_model_;
  Surrogate programs_{[this](std::span<const float> x) { return model_.Predict(x); }}, lists_;
  // The first candidate that was measured, and the others beside it.
  std::optional<std::pair<Features, double>> first_;
  std::vector<std::pair<Features, double>> learned_;
  TooLong too_long_{kernel_.axes};
  std::vector<Opts> frontier_;  // neighbours that were not made
  std::vector<Waiting> pool_;
  std::vector<Candidate> batch_;
  absl::flat_hash_set<std::string> seen_opts_, expanded_;
  absl::flat_hash_set<Digest> seen_text_;
};

}  // namespace

std::string BeamOptions::Key() const {
  return Cat("search=", kSearchVersion, " width=", width, " candidates=", max_candidates,
             " patience=", patience, " batch=", batch, " from_heuristic=", from_heuristic ? 1 : 0,
             " progress=", min_progress, " unrolled=", max_unrolled, " lines=", max_lines,
             " fast_math=", fast_math ? 1 : 0);
}

std::string_view Name(StopReason reason) {
  switch (reason) {
    case StopReason::kExhausted:
      return "exhausted";
    case StopReason::kConverged:
      return "converged";
    case StopReason::kBudget:
      return "budget";
    case StopReason::kDeadline:
      return "deadline";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

std::vector<const Trial*> SearchResult::Ranking() const {
  std::vector<const Trial*> out;
  for (const Trial& trial : trials) {
    if (trial.outcome == Trial::kMeasured) out.push_back(&trial);
  }
  std::sort(out.begin(), out.end(), [](const Trial* a, const Trial* b) {
    // Both point into `trials`, so addresses are in the order of measurement.
    return std::pair(a->seconds, a) < std::pair(b->seconds, b);
  });
  return out;
}

absl::StatusOr<SearchResult> BeamSearch(const ir::UOpContext& ctx, ir::UOp sink,
                                        const Target& target, const BeamOptions& options,
                                        Measurer& measurer) {
  return Search(ctx, sink, target, options, measurer).Run();
}

}  // namespace uopd::search
