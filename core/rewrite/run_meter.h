// SPDX-License-Identifier: MIT
// RunMeter: what the Rewriters of a thread do while it lives, for benchmarks.
//
// A Rewriter that rules make and run for themselves is nested: its visits are counted apart and its
// time is part of the visit that asked for it. Without a meter a Run costs one look at a thread
// local variable more.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

class Rewriter;

// Not thread-safe: it sees the thread that made it, and must be destroyed there, after the
// Rewriters made meanwhile.
class RunMeter {
 public:
  struct Totals {
    uint64_t rewriters = 0, runs = 0;  // runs that were no look-up of a result alone
    uint64_t visits = 0, attempts = 0, matches = 0;
    int64_t ns = 0;  // in Run, right-hand sides and nested Rewriters included
  };
  // Called when a Rewriter that is not nested dies, with what its runs gave.
  using Finished = std::function<void(UOpContext&, const RuleSet&, std::span<const UOp> results)>;

  explicit RunMeter(Finished maybe_finished = nullptr);
  ~RunMeter();
  RunMeter(const RunMeter&) = delete;
  RunMeter& operator=(const RunMeter&) = delete;

  const Totals& totals() const { return totals_; }
  const Totals& nested() const { return nested_; }  // runs and ns are 0

  // The one of this thread; null if there is none.
  static RunMeter* MaybeCurrent();

 private:
  friend class Rewriter;
  Totals totals_, nested_;
  int depth_ = 0;  // of Runs
  const Finished finished_;
  RunMeter* const outer_;  // the one that this hides
};

}  // namespace uopd::rewrite
