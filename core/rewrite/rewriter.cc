// SPDX-License-Identifier: MIT
#include "core/rewrite/rewriter.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/base/config/debug_flags.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/telemetry/trace.h"
#include "core/base/text.h"
#include "core/ir/io/render_expr.h"
#include "core/ir/verify/origin.h"
#include "core/rewrite/match_stats.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rewrite/run_meter.h"

namespace uopd::rewrite {
namespace {

constexpr size_t kRecent = 20;

// The rewrites that REWRITE_LIMIT still allows in this process. Unused without the flag.
std::atomic<int64_t>& RewritesLeft() {
  static std::atomic<int64_t> left{Debug().rewrite_limit};
  return left;
}

std::atomic<bool>& Printing() {
  static std::atomic<bool> printing{Debug().track_match_stats >= 3};
  return printing;
}

std::string RewriteText(const Rule& rule, UOp before, UOp after) {
  return Cat(rule.set, ".", rule.name, "  ", SourcePath(rule.where.file_name()), ":",
             rule.where.line(), "\n    ", ir::RenderExpr(before), "\n -> ", ir::RenderExpr(after),
             "\n");
}

}  // namespace

Rewriter::Rewriter(UOpContext& ctx, const RuleSet& rules, RewriteOptions options)
    : ctx_(ctx),
      options_(std::move(options)),
      observed_(Debug().track_match_stats > 0 || Debug().rewrite_limit >= 0 || Debug().spec >= 2 ||
                Printing() || TraceFile::MaybeGet() != nullptr),
      maybe_meter_(RunMeter::MaybeCurrent()),
      nested_(maybe_meter_ != nullptr && maybe_meter_->depth_ > 0),
      done_(ctx.size() + ctx.size() / 2) {
  env_.user = options_.user;
  env_.user_type = options_.user_type;
  auto use = [](Side& side, const RuleSet& set) {
    side = {&set, std::vector<uint64_t>(set.rules().size()),
            std::vector<uint64_t>(set.rules().size())};
  };
  use(after_, rules);
  if (options_.before != nullptr) use(before_, *options_.before);
  active_ = rules.roots();
  if (before_.rules != nullptr) active_ = active_ | before_.rules->roots();
  if (observed_) {
    if (TraceFile* file = TraceFile::MaybeGet()) trace_ = std::make_unique<TraceRecorder>(*file);
  }
}

Rewriter::~Rewriter() {
  for (const Side* side : {&before_, &after_}) {
    if (side->rules != nullptr) side->rules->AddCounts(side->attempts, side->matches);
  }
  if (maybe_meter_ == nullptr) return;
  RunMeter::Totals& totals = nested_ ? maybe_meter_->nested_ : maybe_meter_->totals_;
  ++totals.rewriters;
  totals.visits += visits_;
  totals.attempts += attempts();
  totals.matches += matches();
  if (!nested_ && maybe_meter_->finished_)
    maybe_meter_->finished_(ctx_, *after_.rules, metered_results_);
}

UOp Rewriter::Run(UOp root) {
  if (DoneOf(root) != kNotSeen) return ResultOf(root);
  return maybe_meter_ != nullptr && !nested_ ? RunMetered(root) : RunNew(root);
}

UOp Rewriter::RunMetered(UOp root) {
  RunMeter& meter = *maybe_meter_;
  ++meter.depth_;
  ++meter.totals_.runs;
  const int64_t begin = NowNs();
  const UOp out = RunNew(root);
  meter.totals_.ns += NowNs() - begin;
  --meter.depth_;
  metered_results_.push_back(out);
  return out;
}

UOp Rewriter::RunNew(UOp root) {
  if (trace_) trace_->Begin(options_.name.empty() ? after_.rules->name() : options_.name, root);
  Push({root, UOp(), kVisit});
  while (depth_ > 0) {
    const Frame top = Top();
    switch (top.step) {
      case kVisit:
        Visit(top.node);
        break;
      case kRebuild:
        Rebuild(top.node);
        break;
      case kAdopt:
        SetDone(top.node, done_[top.other]);
        Pop();
        break;
    }
  }
  const UOp result = ResultOf(root);
  if (trace_) trace_->End(result);
  return result;
}

UOp Rewriter::Try(Side& side, UOp u) {
  if (stopped_) return UOp();
  if (ctx_.Interrupted()) [[unlikely]] {
    StopInterrupted();
    return UOp();
  }
  ++visits_;
  env_.final = false;
  const RuleSet::Outcome outcome =
      observed_ ? TryObserved(side, u) : side.rules->Apply(u, ctx_, side.attempts.data(), env_);
  if (!outcome.result) return UOp();
  ++side.matches[outcome.rule];
  const Rule* rule = side.rules->rules()[outcome.rule].get();
  if (recent_.size() < kRecent) {
    recent_.push_back(rule);
  } else {
    recent_[steps_ % kRecent] = rule;
  }
  if (++steps_ >= options_.max_steps)
    Diverge(Cat("there are more than ", options_.max_steps, " rewrites"), outcome.result);
  return outcome.result;
}

void Rewriter::GrowStack() {
  if (more_frames_.empty()) more_frames_.assign(first_frames_.begin(), first_frames_.end());
  more_frames_.resize(2 * capacity_);
  stack_ = more_frames_.data();
  capacity_ = more_frames_.size();
}

// Last step of u, whose frame is on top: tries the rules that come after the sources.
void Rewriter::Finish(UOp u) {
  if (const UOp next = Try(after_, u)) return Adopt(u, next);
  SetDone(u, u);
  Pop();
}

// The top frame is {u, kVisit}.
void Rewriter::Visit(UOp u) {
  if (const uint32_t known = DoneOf(u); known != kNotSeen) {
    if (known == kPending) {
      Diverge("the result of a node depends on itself", u);
      SetDone(u, u);
    }
    Pop();
    return;
  }
  SetDone(u, kPending);
  if (before_.rules != nullptr) {
    if (const UOp next = Try(before_, u)) return Adopt(u, next);
  }
  if (!options_.enter || options_.enter(u)) {
    const size_t frame = depth_ - 1;
    bool same = true;
    for (size_t i = u.n_src(); i-- > 0;) {
      const UOp s = u.src(i);
      const uint32_t known = done_.Get(s);  // in range: s is older than u
      if (known != kNotSeen && known != kPending) {
        same &= known == Known(s);
      } else if (s.n_src() == 0 && !active_.Has(s.op())) {
        done_.Set(s, Known(s));
      } else {
        Push({s, UOp(), kVisit});
      }
    }
    if (depth_ > frame + 1) {
      stack_[frame].step = kRebuild;
      return;
    }
    if (!same) return Rebuild(u);
  }
  Finish(u);
}

// The sources of u, whose frame is on top, are done.
void Rewriter::Rebuild(UOp u) {
  bool same = true;
  for (UOp s : u.srcs()) same &= done_[s] == Known(s);
  if (same) return Finish(u);
  srcs_.clear();
  for (UOp s : u.srcs()) srcs_.push_back(ResultOf(s));
  const UOp rebuilt = ctx_.WithSources(u, srcs_);
  if (options_.walk) {
    const UOp next = Try(after_, rebuilt);
    SetDone(u, next ? next : rebuilt);
    Pop();
    return;
  }
  if (const uint32_t known = DoneOf(rebuilt); known != kNotSeen) {
    if (known == kPending) Diverge("the result of a node depends on itself", rebuilt);
    SetDone(u, known == kPending ? Known(rebuilt) : known);
    Pop();
    return;
  }
  if (before_.rules != nullptr) {  // a new node: start again with the `before` rules
    Top() = {u, rebuilt, kAdopt};
    Push({rebuilt, UOp(), kVisit});
    return;
  }
  if (const UOp next = Try(after_, rebuilt)) {
    SetDone(rebuilt, kPending);
    Top() = {u, rebuilt, kAdopt};
    Push({rebuilt, UOp(), kRebuild});
    return Adopt(rebuilt, next);
  }
  SetDone(rebuilt, rebuilt);
  SetDone(u, rebuilt);
  Pop();
}

// A rule has replaced `node`, whose frame is on top, by `next`.
void Rewriter::Adopt(UOp node, UOp next) {
  if (options_.walk || env_.final) {
    // A final node stays as it is when it is visited later, unless it has a result already.
    if (!options_.walk && DoneOf(next) == kNotSeen) SetDone(next, next);
    SetDone(node, next);
    Pop();
    return;
  }
  Top() = {node, next, kAdopt};
  Push({next, UOp(), kVisit});
}

RuleSet::Outcome Rewriter::TryObserved(Side& side, UOp u) {
  const DebugFlags& flags = Debug();
  if (flags.rewrite_limit >= 0 && RewritesLeft() <= 0) {
    stopped_ = true;
    return {};
  }
  const Rule* matched = nullptr;
  const RuleSet::Outcome out = side.rules->TryEach(u, [&](const RuleSet::Candidate& c) {
    ++side.attempts[c.index];
    const ir::OriginScope set_origin("set", c.rule->set);
    const ir::OriginScope rule_origin("rule", c.rule->name);
    const int64_t begin = NowNs();
    const UOp result = c.apply(*c.rule, u, ctx_, env_);
    const int64_t ns = NowNs() - begin;
    (result ? c.rule->counts.match_ns : c.rule->counts.miss_ns)
        .fetch_add(ns, std::memory_order_relaxed);
    if (result) matched = c.rule;
    return result;
  });
  if (!out.result) return out;
  if (trace_) trace_->Step(u, out.result, *matched);
  if (Printing()) std::fputs(RewriteText(*matched, u, out.result).c_str(), stderr);
  if (flags.rewrite_limit >= 0 && --RewritesLeft() == 0) {
    std::fprintf(stderr, "REWRITE_LIMIT (%lld) is reached; the last rewrite is\n%s",
                 static_cast<long long>(flags.rewrite_limit),
                 RewriteText(*matched, u, out.result).c_str());
  }
  return out;
}

void Rewriter::Diverge(std::string_view why, UOp u) {
  stopped_ = true;
  if (!status_.ok()) return;
  std::string names;
  for (const std::string& name : last_rules()) Append(names, names.empty() ? "" : ", ", name);
  const std::string_view pass = options_.name.empty() ? after_.rules->name() : options_.name;
  status_ =
      absl::InternalError(Cat("rewriting by ", pass, " diverges after ", steps_, " rewrites: ", why,
                              " (", ir::RenderExpr(u), "); last rules: ", names));
  metrics::Bugs({"rewrite diverged"}).Increment();
  UOPD_LOG(kError, "rewriting diverges", {"error", status_});
}

void Rewriter::StopInterrupted() {
  stopped_ = true;
  if (status_.ok()) status_ = ctx_.CheckInterrupt();
}

std::vector<std::string> Rewriter::last_rules() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < recent_.size(); ++i)
    out.push_back(recent_[recent_.size() < kRecent ? i : (steps_ + i) % kRecent]->FullName());
  return out;
}

namespace {
uint64_t Sum(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  return std::accumulate(b.begin(), b.end(), std::accumulate(a.begin(), a.end(), uint64_t{0}));
}
}  // namespace
uint64_t Rewriter::attempts() const { return Sum(before_.attempts, after_.attempts); }
uint64_t Rewriter::matches() const { return Sum(before_.matches, after_.matches); }

void PrintEveryRewrite(bool on) { Printing() = on; }

absl::StatusOr<UOp> Rewrite(UOpContext& ctx, UOp root, const RuleSet& rules,
                            RewriteOptions options) {
  Rewriter rewriter(ctx, rules, std::move(options));
  const UOp out = rewriter.Run(root);
  UOPD_TRY(rewriter.status());
  return out;
}

}  // namespace uopd::rewrite
