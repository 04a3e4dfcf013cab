// SPDX-License-Identifier: MIT
// Rewriter: applies rule sets to a whole graph until nothing applies.
//
// For each node, `before` rules are tried first, then its sources are rewritten, then `rules` are
// tried on the node made anew from them. What a rule returns is itself rewritten completely, so the
// result is a fixed point of both sets; m.Final(u) returns a node that is not. With `walk` every
// node gets each set once and results are used as they are. Where `enter` is false for a node, its
// sources stay as they are.
//
// A Rewriter remembers the result of every node it has seen, so asking again, or for a graph that
// shares nodes, is cheap: rules must therefore be pure functions of the node and the user object.
// Not thread-safe; belongs to the thread of its context. Rules must not call Run of the Rewriter
// that applies them; another one is fine.
//
// Termination: when a node's result depends on itself, or after `max_steps` rewrites, the Rewriter
// stops applying rules for good. What it returns is still equal in value; status() is INTERNAL and
// names the last rules, and uopd_bugs_total counts.
//
// Interrupts: when the context's Interrupt is raised the Rewriter stops in the same way, and
// status() is the Interrupt's.
//
// Debug flags: REWRITE_LIMIT, TRACK_MATCH_STATS, TRACE_REWRITES, VIZ, SPEC (docs/debugging.md).
// Off, they cost one predicted branch a visit.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ir/node_index.h"
#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

class RunMeter;
class TraceRecorder;

struct RewriteOptions {
  std::string_view name;  // of the pass, in traces and messages; empty: that of the rule set
  const RuleSet* before = nullptr;
  bool walk = false;
  std::function<bool(UOp)> enter;  // null: everywhere
  uint64_t max_steps = 20'000'000;

  // An object that rules reach as m.User<T>(). It outlives the Rewriter.
  template <class T>
  void SetUser(T* object) {
    user = object;
    user_type = &type_tag<T>;
  }
  void* user = nullptr;
  const void* user_type = nullptr;
};

class Rewriter {
 public:
  // The sets outlive the Rewriter.
  Rewriter(UOpContext& ctx, const RuleSet& rules, RewriteOptions options = {});
  ~Rewriter();  // adds to uopd_pattern_attempts_total, uopd_pattern_matches_total and MatchStats
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  UOp Run(UOp root);

  bool diverged() const { return absl::IsInternal(status_); }
  // Why it stopped applying rules.
  const absl::Status& status() const { return status_; }
  std::vector<std::string> last_rules() const;  // oldest first, at most 20
  uint64_t visits() const { return visits_; }   // nodes that a set was tried on
  uint64_t attempts() const;                    // rules tried
  uint64_t matches() const;                     // rules that applied

 private:
  struct Side {
    const RuleSet* rules = nullptr;  // null: none
    std::vector<uint64_t> attempts, matches;
  };
  enum Stage : uint8_t { kVisit, kRebuild, kAdopt };
  // kVisit: find the result of `node`. kRebuild: its sources are done. kAdopt: its result is that
  // of `other`, which is done.
  struct Frame {
    UOp node, other;
    Stage stage;
  };

  // What is known of a node: nothing, that its result is being found, or the result's id and 1.
  static constexpr uint32_t kNotSeen = ir::NodeIndex::kNone, kPending = 0;
  static uint32_t Known(UOp result) { return result.id() + 1; }
  uint32_t DoneOf(UOp u) const { return u.id() < done_.ids() ? done_.Get(u) : kNotSeen; }
  // REQUIRES: it is known.
  UOp ResultOf(UOp u) const {
    const uint32_t known = done_[u];
    return known == Known(u) ? u : ctx_.node(known - 1);
  }
  void SetDone(UOp u, uint32_t known) {
    if (u.id() >= done_.ids() || known > done_.ids()) GrowDone();  // the result may be younger
    done_.Set(u, known);
  }
  void SetDone(UOp u, UOp result) { SetDone(u, Known(result)); }
  void GrowDone() { done_.Grow(ctx_.size() + ctx_.size() / 2); }
  UOp RunNew(UOp root);  // not seen before
  UOp RunMetered(UOp root);
  void Push(Frame f) {
    if (depth_ == capacity_) GrowStack();
    stack_[depth_++] = f;
  }
  void GrowStack();
  void Pop() { --depth_; }
  Frame& Top() { return stack_[depth_ - 1]; }
  void Visit(UOp u);
  void Rebuild(UOp u);
  [[gnu::always_inline]] inline void Finish(UOp u);
  void Adopt(UOp node, UOp next);
  [[gnu::always_inline]] inline UOp Try(Side& side, UOp u);
  RuleSet::Outcome TryObserved(Side& side, UOp u);
  void Diverge(std::string_view why, UOp u);
  void StopInterrupted();

  UOpContext& ctx_;
  const RewriteOptions options_;
  Side before_, after_;
  RuleEnv env_;
  ir::OpSet active_;     // ops that are the root of some rule
  const bool observed_;  // a debug flag wants to see every attempt
  std::unique_ptr<TraceRecorder> trace_;
  RunMeter* const maybe_meter_;
  const bool nested_;                 // made inside a Run that the meter sees
  std::vector<UOp> metered_results_;  // of its Runs, if there is a meter
  bool stopped_ = false;
  absl::Status status_;
  uint64_t steps_ = 0, visits_ = 0;
  ir::NodeIndex done_;
  std::vector<const Rule*> recent_;  // ring
  // The first depth_ frames are in use; in the object itself as long as they fit.
  std::array<Frame, 64> first_frames_;
  std::vector<Frame> more_frames_;
  Frame* stack_ = first_frames_.data();
  size_t depth_ = 0, capacity_ = first_frames_.size();
  std::vector<UOp> srcs_;
};

// Rewriters made from now on print each rewrite to stderr, as they do with TRACK_MATCH_STATS=3.
void PrintEveryRewrite(bool on);

// One rewrite with a Rewriter of its own; its status if it stopped early.
absl::StatusOr<UOp> Rewrite(UOpContext& ctx, UOp root, const RuleSet& rules,
                            RewriteOptions options = {});

}  // namespace uopd::rewrite
