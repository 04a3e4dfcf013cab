// SPDX-License-Identifier: MIT
// The rewrite engine at work: every run of every rule set while the graphs of whole models are
// scheduled and code is generated for each of their different kernels, timed inside of the engine
// (what a visit is: rewrite_rows.h). Rows of a model: all of it, its two stages, and `fixed`: the
// results rewritten once more by new Rewriters, so that rules are tried and none applies.
#include <cmath>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewriter.h"
#include "core/rewrite/run_meter.h"
#include "core/rules/rules.h"
#include "core/schedule/schedule.h"
#include "tests/perf/models.h"
#include "tests/perf/rewrite_rows.h"

namespace uopd::perf::rewrite_models_perf {
namespace {

using rewrite::RunMeter;

RewriteTiming& operator+=(RewriteTiming& t, const RewriteTiming& o) {
  t.seconds += o.seconds;
  t.visits += o.visits, t.attempts += o.attempts, t.matches += o.matches;
  return t;
}
RewriteTiming TimingOf(const RunMeter::Totals& t) {
  return {static_cast<double>(t.ns) * 1e-9, t.visits, t.attempts, t.matches};
}

struct Rows {
  RewriteTiming schedule, codegen, fixed;
  RunMeter::Totals nested;
  RewriteTiming All() const {
    RewriteTiming t = schedule;
    return t += codegen;
  }
};

absl::StatusOr<Rows> MeasureOnce(const client::Exported& graph) {
  Rows rows;
  auto again = [&](ir::UOpContext& ctx, const rewrite::RuleSet& rules,
                   std::span<const ir::UOp> results) {
    const RunMeter meter;  // hides the one that calls this
    {
      rewrite::Rewriter rewriter(ctx, rules);
      for (ir::UOp u : results) rewriter.Run(u);
    }
    rows.fixed += TimingOf(meter.totals());
  };
  std::set<std::string> kernels;
  {
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph.graph, ir::Level::kTensor));
    const RunMeter meter(again);
    UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, {}));
    rows.schedule = TimingOf(meter.totals());
    rows.nested = meter.nested();
    for (const schedule::Item& item : schedule.items) {
      if (item.kind == schedule::Item::kKernel) kernels.insert(item.graph);
    }
  }
  Target target;  // of this description and no other: visits are the same everywhere
  target.vector_bytes = 32, target.vector_registers = 16, target.threads = 2;
  for (const std::string& kernel : kernels) {
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, kernel, ir::Level::kKernel));
    const RunMeter meter(again);
    UOPD_TRY(codegen::Lower(ctx, sink, target, {}).status());
    rows.codegen += TimingOf(meter.totals());
    rows.nested.visits += meter.nested().visits;
  }
  return rows;
}

absl::Status Measure(const Model& model, int rounds, std::vector<Measurement>& out) {
  UOPD_ASSIGN(const client::Exported graph, model.build());
  // The best round counts, since the machine may be shared.
  std::optional<Rows> best;
  double fixed = 0;
  for (int i = 0; i < rounds; ++i) {
    UOPD_ASSIGN(Rows rows, MeasureOnce(graph));
    fixed = i == 0 ? rows.fixed.seconds : std::min(fixed, rows.fixed.seconds);
    if (!best || rows.All().seconds < best->All().seconds) best = rows;
  }
  best->fixed.seconds = fixed;
  const std::string& name = model.name;
  const RewriteTiming all = best->All();
  ReportRewrite(out, name, all);
  out.push_back({Cat("rewrite.", name, "_nested"), "per visit",
                 static_cast<double>(best->nested.visits) / static_cast<double>(all.visits), "",
                 0});
  ReportRewrite(out, Cat(name, ".schedule"), best->schedule);
  ReportRewrite(out, Cat(name, ".codegen"), best->codegen);
  ReportRewrite(out, Cat(name, ".fixed"), best->fixed);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  rules::FastSymbolicRules();  // built before the clock starts
  const int rounds = std::max(1, static_cast<int>(std::lround(9 * options.scale)));
  std::vector<Measurement> out;
  bool found = false;
  for (const Model& m : Models(options.layers)) {
    const std::string_view chosen = options.model;
    if (chosen.empty() ? m.name != "resnet50" && !m.name.starts_with("llama")
                       : !m.name.starts_with(chosen)) {
      continue;
    }
    found = true;
    UOPD_TRY(WithFrame(Measure(m, rounds, out), Cat("measuring ", m.name)));
  }
  if (!found) return absl::InvalidArgumentError(Cat("no model is called ", options.model));
  return out;
}

const Register kRegister(
    "rewrite-models",
    "visits a second while whole models are scheduled and lowered: --model, --layers as schedule",
    Run);

}  // namespace
}  // namespace uopd::perf::rewrite_models_perf
