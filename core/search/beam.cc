// SPDX-License-Identifier: MIT
#include "core/search/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/bytes.h"
#include "core/base/text.h"

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
    std::vector<Trial> beam = Best();
    if (beam.empty()) {
      if (out_.stop == StopReason::kCancelled) return absl::CancelledError("tuning was cancelled");
      if (out_.stop == StopReason::kDeadline) {
        return absl::DeadlineExceededError("the deadline passed before a kernel was measured");
      }
      return first_error_;
    }
    for (round_ = 1; !stopped_; ++round_) {
      const double before = beam.front().seconds;
      const size_t trials = out_.trials.size();
      for (const Trial& parent : beam) Expand(parent.opts);
      Flush();
      beam = Best();
      if (stopped_) break;
      if (out_.trials.size() == trials) {
        Stop(StopReason::kExhausted);
      } else if (!(beam.front().seconds < before * (1 - options_.min_progress))) {
        Stop(StopReason::kConverged);
      } else if (round_ >= options_.max_rounds) {
        Stop(StopReason::kBudget);
      }
    }
    out_.best = beam.front().opts;
    out_.seconds = beam.front().seconds;
    return std::move(out_);
  }

 private:
  void Start() {
    // The heuristic's choice first: it wins ties, and it is measured even if time is short.
    codegen::Options options;
    options.fast_math = options_.fast_math;
    out_.heuristic_seconds = kInfinity;
    Try(options, SIZE_MAX);  // a user would run it, whatever its size
    Flush();
    if (!out_.trials.empty()) out_.heuristic_seconds = out_.trials.front().seconds;
    options.noopt = true;
    if (!stopped_) Try(options, options_.max_lines);
    Flush();
  }

  // Tries the neighbours of `parent` that are new.
  void Expand(const Opts& parent) {
    for (Opts& next : Neighbours(kernel_, target_, parent)) {
      if (stopped_) return;
      if (UnrolledElements(kernel_.axes, next) > options_.max_unrolled) continue;
      if (!seen_opts_.insert(KeyOf(next)).second) continue;
      codegen::Options options;
      options.fast_math = options_.fast_math;
      options.opts = &next;
      Try(options, options_.max_lines);
    }
  }

  // Creates one candidate and queues it, if its text is new.
  void Try(const codegen::Options& options, size_t max_lines) {
    if (!CheckTime()) return;
    if (static_cast<int>(out_.trials.size() + batch_.size()) >= options_.max_candidates) {
      return Stop(StopReason::kBudget);
    }
    auto candidate = MakeCandidate(ctx_, sink_, target_, options, max_lines);
    if (!candidate.ok()) {
      ++out_.illegal;
      if (first_error_.ok()) first_error_ = candidate.status();
      return;
    }
    seen_opts_.insert(KeyOf(candidate->opts));
    if (!seen_text_.insert(candidate->digest).second) {
      ++out_.duplicates;
      return;
    }
    batch_.push_back(*std::move(candidate));
    if (static_cast<int>(batch_.size()) >= options_.batch) Flush();
  }

  // Measures the queued candidates.
  void Flush() {
    // After a deadline or a cancellation do not measure them.
    if (stopped_ && out_.stop != StopReason::kBudget) batch_.clear();
    if (batch_.empty()) return;
    const auto times = measurer_.Measure(batch_, best_seconds_);
    UOPD_CHECK(times.size() == batch_.size());
    for (size_t i = 0; i < batch_.size(); ++i) {
      Trial trial;
      trial.opts = batch_[i].opts;
      trial.round = round_;
      if (!times[i].ok() || !(*times[i] >= 0) || std::isinf(*times[i])) {
        trial.outcome = Trial::kFailed;
        trial.error = times[i].ok() ? "the time is not a number" : times[i].status().ToString();
        if (first_error_.ok()) {
          first_error_ = times[i].ok() ? absl::InternalError(trial.error) : times[i].status();
        }
      } else {
        trial.seconds = *times[i];
        best_seconds_ = std::min(best_seconds_, trial.seconds);
      }
      if (options_.progress) options_.progress(trial);
      out_.trials.push_back(std::move(trial));
    }
    batch_.clear();
    CheckTime();
  }

  std::vector<Trial> Best() const {
    std::vector<Trial> out;
    for (const Trial* trial : out_.Ranking()) {
      if (static_cast<int>(out.size()) >= std::max(options_.width, 1)) break;
      out.push_back(*trial);
    }
    return out;
  }

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
  int round_ = 0;
  double best_seconds_ = kInfinity;
  absl::Status first_error_;
  std::vector<Candidate> batch_;
  absl::flat_hash_set<std::string> seen_opts_;
  absl::flat_hash_set<Digest> seen_text_;
};

}  // namespace

std::string BeamOptions::Key() const {
  return Cat("search=", kSearchVersion, " width=", width, " candidates=", max_candidates,
             " rounds=", max_rounds, " progress=", min_progress, " unrolled=", max_unrolled,
             " lines=", max_lines, " fast_math=", fast_math ? 1 : 0);
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
