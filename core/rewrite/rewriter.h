// SPDX-License-Identifier: MIT
// Rewriter: applies rule sets to a whole graph until no rule applies.
//
// For each node it tries the `before` rules, then rewrites the sources, then tries `rules` on the
// node rebuilt with the new sources. The result of a rule is rewritten completely too, so the final
// graph is a fixed point of both sets. Exception: m.Final(u) keeps u as it is. With `walk` each set
// is tried once per node and results are not rewritten again. If `enter` is false for a node, its
// sources stay as they are. The walk has its own stack, so deep graphs are fine.
//
// A Rewriter remembers the result of every node. Rewriting a graph that shares nodes with an
// earlier one is therefore cheap, and rules must be pure functions of the node and the user object.
// Not thread-safe: used by the thread of its context. A rule must not call Run of the Rewriter that
// applies it, but it may use another Rewriter.
//
// Termination: if the result of a node depends on itself, or after `max_steps` rewrites, the
// Rewriter stops applying rules for good. The graph that it returns still has an equal value;
// status() is INTERNAL and names the last rules, and uopd_bugs_total is incremented.
//
// Interrupts: if the Interrupt of the context is raised, the Rewriter stops in the same way and
// status() is that of the Interrupt.
//
// Debug flags: REWRITE_LIMIT, TRACK_MATCH_STATS, TRACE_REWRITES, VIZ, SPEC (docs/debugging.md). If
// they are off, they cost one predicted branch per visit.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ir/tables/node_index.h"
#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

class RunMeter;
class TraceRecorder;

struct RewriteOptions {
  std::string_view name;            // of the pass, in traces and messages; empty: name of `rules`
  const RuleSet* before = nullptr;  // rules tried before the sources; null: none
  bool walk = false;                // try each set once per node
  std::function<bool(UOp)> enter;   // whether to rewrite the sources of a node; null: always
  uint64_t max_steps = 20'000'000;  // rewrites after which it has diverged

  // An object that rules access as m.User<T>(). It must outlive the Rewriter.
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
  // The rule sets must outlive the Rewriter.
  Rewriter(UOpContext& ctx, const RuleSet& rules, RewriteOptions options = {});
  // Adds its counts to uopd_pattern_attempts_total, uopd_pattern_matches_total and MatchStats.
  ~Rewriter();
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // The rewritten root. Never fails: check status() afterwards.
  UOp Run(UOp root);

  bool diverged() const { return absl::IsInternal(status_); }
  // OK, or why it stopped applying rules.
  const absl::Status& status() const { return status_; }
  std::vector<std::string> last_rules() const;  // oldest first, at most 20
  uint64_t visits() const { return visits_; }   // times a set was tried on a node
  uint64_t attempts() const;                    // times a rule was tried
  uint64_t matches() const;                     // times a rule applied

 private:
  // A rule set and its counts, by index into rules->rules().
  struct Side {
    const RuleSet* rules = nullptr;  // null: no set
    std::vector<uint64_t> attempts, matches;
  };
  // The state of a node on the stack:
  //   kVisit    its result is to be found;
  //   kRebuild  its sources are done;
  //   kAdopt    `other` is done, and its result is the result of `node` too.
  enum Step : uint8_t { kVisit, kRebuild, kAdopt };
  struct Frame {
    UOp node, other;
    Step step;
  };

  // Entries of done_: kNotSeen, kPending (the node is on the stack), or the id of the result plus
  // 1.
  static constexpr uint32_t kNotSeen = ir::NodeIndex::kNone, kPending = 0;
  static uint32_t Known(UOp result) { return result.id() + 1; }
  uint32_t DoneOf(UOp u) const { return u.id() < done_.ids() ? done_.Get(u) : kNotSeen; }
  // REQUIRES: the result of u is known.
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
  UOp RunNew(UOp root);  // REQUIRES: root is kNotSeen
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
  ir::OpSet active_;     // the root ops of all rules
  const bool observed_;  // a debug flag observes every attempt
  std::unique_ptr<TraceRecorder> trace_;
  RunMeter* const maybe_meter_;
  const bool nested_;                 // created during a Run that the meter measures
  std::vector<UOp> metered_results_;  // the results of its Runs, if there is a meter
  bool stopped_ = false;
  absl::Status status_;
  uint64_t steps_ = 0, visits_ = 0;
  ir::NodeIndex done_;
  std::vector<const Rule*> recent_;  // ring buffer of the last rules that applied
  // The stack: depth_ frames, in first_frames_ while they fit, else in more_frames_.
  std::array<Frame, 64> first_frames_;
  std::vector<Frame> more_frames_;
  Frame* stack_ = first_frames_.data();
  size_t depth_ = 0, capacity_ = first_frames_.size();
  std::vector<UOp> srcs_;
};

// From now on new Rewriters print each rewrite to stderr, as with TRACK_MATCH_STATS=3.
void PrintEveryRewrite(bool on);

// Rewrites root with a new Rewriter. Returns an error if the Rewriter stopped early.
absl::StatusOr<UOp> Rewrite(UOpContext& ctx, UOp root, const RuleSet& rules,
                            RewriteOptions options = {});

}  // namespace uopd::rewrite
