// SPDX-License-Identifier: MIT
#include "core/search/beam.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/search/lower_lists.h"
#include "core/search/seeds.h"
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
    const codegen::StoredOpt stored = codegen::Stored(opt);
    PutVarint(out, stored.kind);
    PutSigned(out, stored.axis);
    PutSigned(out, stored.amount);
  }
  return out;
}

// Candidates that are made in one step, for each one that is measured: each costs a lowering.
constexpr int kMadePerMeasured = 6;
constexpr int kLevels = 2;          // of neighbours that a step looks ahead
constexpr int kMostPacks = 6;       // loads of a seed that are tried with PACK
constexpr double kPackGain = 0.05;  // of log2(time), that such a PACK must save
constexpr int kSeeds = 8;           // that are measured at the start; more are lowered
// The neighbours of what is so many times slower than the best are not tried.
constexpr double kFar = 8;
constexpr size_t kShortList = 48;  // candidates from which a model chooses one after the other
constexpr size_t kGroup = 4;       // lists that are chosen before the model counts them as measured
constexpr double kHope = 1;        // deviations by which a candidate may be better than expected
constexpr double kDoubt = 2;       // deviations by which one that is left out may be better
constexpr int kKnown = 16;         // trials before any candidate is left out
constexpr double kClear = 1;       // and is still slower by this, of log2(time)
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
        kernel_(SpaceOf(ctx, sink)) {}

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
    bool shortens_best = false;  // the best list without one of its opts
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
    if (!stopped_ && !Full()) MeasureSeeds();
  }

  // Measures the seeds that the model of programs expects most of, even if it expects more of the
  // heuristic's choice.
  void MeasureSeeds() {
    for (Opts& seed : Seeds(kernel_, target_)) AddToFrontier(std::move(seed));
    PackSeeds();
    const auto left = options_.max_candidates - static_cast<int>(out_.trials.size());
    std::vector<Opts> bases;  // of those in the batch, which differ in more than PACK
    for (size_t i = 0;
         i < pool_.size() && static_cast<int>(batch_.size()) < std::min(kSeeds, left);) {
      Opts base = pool_[i].candidate.opts;
      std::erase_if(base, [](const codegen::Opt& o) { return o.kind == codegen::OptKind::kPack; });
      if (std::ranges::find(bases, base) != bases.end()) {
        ++i;
        continue;
      }
      bases.push_back(std::move(base));
      batch_.push_back(std::move(pool_[i].candidate));
      pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Flush();
  }

  // Lowers the seeds in the frontier, then the best of them with each PACK, and with all PACKs
  // together that the model expects to save time. Leaves the pool in the order of what the model
  // expects, the fastest first.
  void PackSeeds() {
    LowerFrontierFrom(0);
    SortPool();
    std::vector<std::pair<Opts, double>> seeds;
    for (size_t i = 0; i < std::min(pool_.size(), static_cast<size_t>(kSeeds)); ++i)
      seeds.emplace_back(pool_[i].candidate.opts, Expected(pool_[i]));
    const int loads = std::min(kernel_.loads, kMostPacks);
    const auto packed = [](Opts opts, int load) {
      opts.push_back({codegen::OptKind::kPack, load, 0});
      return Canonical(std::move(opts));
    };
    size_t known = frontier_.size();
    for (const auto& [opts, expected] : seeds) {
      for (int load = 0; load < loads; ++load) AddToFrontier(packed(opts, load));
    }
    LowerFrontierFrom(known);
    known = frontier_.size();
    for (const auto& [opts, expected] : seeds) {
      Opts all = opts;
      for (int load = 0; load < loads; ++load) {
        const Opts one = packed(opts, load);
        const auto at =
            std::ranges::find_if(pool_, [&](const Waiting& w) { return w.candidate.opts == one; });
        if (at != pool_.end() && Expected(*at) < expected - kPackGain) all = packed(all, load);
      }
      if (all.size() > opts.size() + 1) AddToFrontier(std::move(all));
    }
    LowerFrontierFrom(known);
    SortPool();
  }

  double Expected(const Waiting& waiting) const {
    return model_.Predict(waiting.candidate.features);
  }

  // If it is new, and not too large.
  void AddToFrontier(Opts opts) {
    if (UnrolledElements(kernel_.axes, opts) > options_.max_unrolled) return;
    if (seen_opts_.insert(KeyOf(opts)).second) frontier_.push_back(std::move(opts));
  }

  void LowerFrontierFrom(size_t first) {
    std::vector<size_t> all(frontier_.size() - first);
    std::iota(all.begin(), all.end(), first);
    LowerToPool(all);
  }

  void SortPool() {
    std::ranges::sort(pool_, std::less<>(), [&](const Waiting& w) {
      return std::pair(Expected(w), KeyOf(w.candidate.opts));
    });
  }

  // Makes the most promising neighbours of the best candidates, and of the best ones among those
  // that are not measured.
  void Grow() {
    ShortenBest();
    for (int level = 0; level < kLevels && !stopped_; ++level) {
      if (level == 0) ExpandMeasured();
      ExpandWaiting();
      MakeSome(kMadePerMeasured * options_.batch / kLevels);
    }
  }

  // Makes the best list without each of its opts. An opt helped when it was added; whether it still
  // helps beside the opts that were added later is not known.
  void ShortenBest() {
    const Opts& best = out_.Ranking().front()->opts;
    if (!shortened_.insert(KeyOf(best)).second) return;
    for (Waiting& waiting : pool_) waiting.shortens_best = false;
    const size_t known = frontier_.size(), made = pool_.size();
    for (size_t i = 0; i < best.size(); ++i) {
      Opts next = best;
      next.erase(next.begin() + static_cast<std::ptrdiff_t>(i));
      AddToFrontier(Canonical(std::move(next)));
    }
    LowerFrontierFrom(known);
    for (size_t i = made; i < pool_.size(); ++i) pool_[i].shortens_best = true;
  }

  void ExpandMeasured() {
    int left = std::max(options_.width, 1);
    for (const Trial* trial : out_.Ranking()) {
      if (left-- == 0) break;
      if (trial->seconds > kFar * best_seconds_) break;
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
    for (Opts& next : Neighbours(kernel_, target_, parent)) AddToFrontier(std::move(next));
  }

  // Makes candidates of the frontier: three quarters of them those that the model of opts expects
  // most of, the others from all over it.
  void MakeSome(int count) {
    std::erase_if(frontier_, [&](const Opts& opts) { return too_long_.Covers(opts); });
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < frontier_.size(); ++i)
      order.emplace_back(Hope(lists_.Predict(FeaturesOf(kernel_, frontier_[i]))), i);
    const auto wanted = std::min<size_t>(static_cast<size_t>(count), order.size());
    std::vector<size_t> open = ShortList(order), chosen;
    Surrogate lists = lists_;
    const size_t by_hope = wanted - wanted / 4;
    while (chosen.size() < by_hope && !open.empty()) {
      std::vector<std::pair<double, size_t>> hopes;
      for (const size_t i : open)
        hopes.emplace_back(Hope(lists.Predict(FeaturesOf(kernel_, frontier_[i]))), i);
      std::ranges::sort(hopes);
      std::vector<std::pair<std::vector<float>, double>>
          group;  // features, and the time that is expected
      for (size_t k = 0; k < std::min({hopes.size(), kGroup, by_hope - chosen.size()}); ++k) {
        const size_t i = hopes[k].second;
        std::vector<float> features = FeaturesOf(kernel_, frontier_[i]);
        const double mean = lists.Predict(features).mean;
        group.emplace_back(std::move(features), mean);
        chosen.push_back(i);
        std::erase(open, i);
      }
      for (auto& [features, mean] : group) lists.Observe(std::move(features), mean);
    }
    while (chosen.size() < wanted) {
      const size_t i = Random() % frontier_.size();
      if (std::ranges::find(chosen, i) == chosen.end()) chosen.push_back(i);
    }
    std::ranges::sort(chosen);
    LowerToPool(chosen);
  }

  // Takes these lists from the frontier, in ascending order, and their candidates into the pool.
  void LowerToPool(std::span<const size_t> chosen) {
    std::vector<const Opts*> lists;
    for (const size_t i : chosen) lists.push_back(&frontier_[i]);
    const auto lower = [&](const Opts& opts) {
      codegen::Options options;
      options.fast_math = options_.fast_math;
      options.opts = &opts;
      return Lower(options, options_.max_lines);
    };
    std::vector<absl::StatusOr<Candidate>> made = LowerLists(
        lists, {lower, options_.threads, options_.on_thread, [&] { return CheckTime(); }});
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

  // The kShortList most promising ones. Sorts `hopes`.
  static std::vector<size_t> ShortList(std::vector<std::pair<double, size_t>>& hopes) {
    std::ranges::sort(hopes);
    std::vector<size_t> out;
    for (size_t k = 0; k < std::min(hopes.size(), kShortList); ++k) out.push_back(hopes[k].second);
    return out;
  }

  // Moves the most promising of those that wait into the batch: by turns those that one model and
  // the other expects most of, so that none of them leads alone. What was chosen counts as
  // measured, with the time that is expected of it: so the next one is not its twin. What both
  // expect to be clearly slower than the best stays.
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
    const auto left =
        static_cast<size_t>(options_.max_candidates - static_cast<int>(out_.trials.size()));
    const size_t wanted = std::min({by_program.size(), static_cast<size_t>(options_.batch), left});
    std::vector<size_t> open = ShortList(by_program);
    for (const size_t i : ShortList(by_list)) {
      if (std::ranges::find(open, i) == open.end()) open.push_back(i);
    }
    Surrogate programs = programs_, lists = lists_;
    std::set<size_t> chosen;
    const auto choose = [&](auto&& expected, auto&& may) {
      const auto at = std::ranges::min_element(open, std::less<>(), [&](size_t i) {
        return may(pool_[i]) ? Hope(expected(pool_[i])) : kInfinity;
      });
      if (chosen.size() >= wanted || at == open.end() || !may(pool_[*at])) return;
      chosen.insert(*at);
      open.erase(at);
    };
    const auto of_program = [&](const Waiting& w) { return programs.Predict(w.features); };
    const auto of_list = [&](const Waiting& w) { return lists.Predict(w.list); };
    const auto any = [](const Waiting&) { return true; };
    choose(of_program, [](const Waiting& w) { return w.shortens_best; });
    while (chosen.size() < wanted) {
      const std::set<size_t> before = chosen;
      choose(of_program, any);
      choose(of_list, any);
      std::vector<std::tuple<size_t, double, double>> expected;  // all before the models change
      for (const size_t i : chosen) {
        if (before.contains(i)) continue;
        expected.emplace_back(i, of_program(pool_[i]).mean, of_list(pool_[i]).mean);
      }
      for (const auto& [i, program, list] : expected) {
        programs.Observe(pool_[i].features, program);
        lists.Observe(pool_[i].list, list);
      }
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
    if (!stopped_ && options_.limits.IsCancelled()) Stop(StopReason::kCancelled);
    if (!stopped_ && std::chrono::steady_clock::now() >= options_.limits.deadline) {
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
  const SearchSpace kernel_;

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
  absl::flat_hash_set<std::string> seen_opts_, expanded_, shortened_;
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
