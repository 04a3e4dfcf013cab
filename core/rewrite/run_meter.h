// SPDX-License-Identifier: MIT
// RunMeter: measures the Rewriters of a thread while it lives, for benchmarks.
//
// A Rewriter that a rule creates and runs is nested: its visits are counted separately, and its
// time is part of the Run that applied the rule. Without a meter a Rewriter costs one extra read of
// a thread-local variable.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

class Rewriter;

// Not thread-safe: it measures the thread that created it. Destroy it on that thread, after all
// Rewriters that were created while it lived.
class RunMeter {
 public:
  struct Totals {
    uint64_t rewriters = 0, runs = 0;  // runs: without those that only looked up a known result
    uint64_t visits = 0, attempts = 0, matches = 0;
    int64_t ns = 0;  // time in Run, including right-hand sides and nested Rewriters
  };
  // Called when a Rewriter that is not nested is destroyed, with the results of its runs.
  using Finished = std::function<void(UOpContext&, const RuleSet&, std::span<const UOp> results)>;

  explicit RunMeter(Finished maybe_finished = nullptr);
  ~RunMeter();
  RunMeter(const RunMeter&) = delete;
  RunMeter& operator=(const RunMeter&) = delete;

  const Totals& totals() const { return totals_; }
  const Totals& nested() const { return nested_; }  // its runs and ns are 0

  // The meter of this thread; null if there is none.
  static RunMeter* MaybeCurrent();

 private:
  friend class Rewriter;
  Totals totals_, nested_;
  int depth_ = 0;  // nesting of measured Runs
  const Finished finished_;
  RunMeter* const outer_;  // the meter that was current before
};

}  // namespace uopd::rewrite
