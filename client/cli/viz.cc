// SPDX-License-Identifier: MIT
// uopctl viz FILE: the rewrites that VIZ=1 or TRACE_REWRITES=FILE recorded. Needs no daemon.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/rewrite_log.h"
#include "client/data/files.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

struct VizOptions {
  std::string file;
  int64_t step = 0, pass = 0;
  bool rules = false, whole = false;
};

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string Where(const RewriteLog::Rule& rule) { return Cat(rule.file, ":", rule.line); }

json PrintRules(const RewriteLog& log, bool as_json) {
  json out = json::array();
  if (!as_json) std::printf("%10s %12s  %s\n", "rewrites", "nodes added", "rule");
  for (const RewriteLog::RuleSummary& s : log.Summary()) {
    const RewriteLog::Rule& rule = log.rule(s.rule);
    if (as_json) {
      out.push_back({{"rule", rule.name},
                     {"where", Where(rule)},
                     {"rewrites", s.rewrites},
                     {"nodes_added", s.nodes}});
    } else {
      std::printf("%10lld %12lld  %s  %s\n", static_cast<long long>(s.rewrites),
                  static_cast<long long>(s.nodes), rule.name.c_str(), Where(rule).c_str());
    }
  }
  return {{"rules", out}};
}

json PrintPasses(const RewriteLog& log, const VizOptions& options, bool as_json) {
  json out = json::array(), notes = json::array();
  auto note = log.notes().begin();
  // Prints the notes that come before so many passes.
  const auto print_notes = [&](size_t passes) {
    for (; note != log.notes().end() && note->before <= passes; ++note) {
      if (options.pass != 0) continue;
      notes.push_back({{"name", note->name}, {"note", note->text}});
      if (!as_json) Print(Cat("note  ", note->name, "  ", note->text, "\n"));
    }
  };
  for (size_t number = 0; number < log.passes().size(); ++number) {
    const RewriteLog::Pass& p = log.passes()[number];
    print_notes(number);
    if (options.pass != 0 && p.id != options.pass) continue;
    const size_t before = log.NodesUnder(p.root), after = log.NodesUnder(p.result);
    json steps = json::array();
    std::string text = Cat("pass ", p.id, "  ", p.name, p.parent ? Cat("  in pass ", p.parent) : "",
                           "  ", p.steps.size(), p.steps.size() == 1 ? " rewrite" : " rewrites",
                           ", ", before, " -> ", after, " nodes\n");
    for (size_t i : p.steps) {
      const RewriteLog::Step& s = log.steps()[i];
      const RewriteLog::Rule& rule = log.rule(s.rule);
      Append(text, "  step ", i + 1, "  ", rule.name, "  ", Where(rule), "\n      ", s.from,
             "\n   -> ", s.to, "\n");
      steps.push_back({{"step", i + 1},
                       {"rule", rule.name},
                       {"where", Where(rule)},
                       {"from", s.from},
                       {"to", s.to}});
    }
    if (as_json) {
      out.push_back({{"pass", p.id},
                     {"parent", p.parent},
                     {"name", p.name},
                     {"nodes_before", before},
                     {"nodes_after", after},
                     {"steps", steps}});
    } else {
      Print(text);
    }
  }
  print_notes(log.passes().size());
  return {{"passes", out}, {"notes", notes}};
}

absl::Status Viz(Globals& globals, const VizOptions& options) {
  UOPD_ASSIGN(std::ifstream in, client::OpenInput(options.file));
  UOPD_ASSIGN(RewriteLog log, RewriteLog::Read(in));
  if (log.truncated())
    std::fprintf(stderr, "uopctl: the recording reached its size limit before the process ended\n");
  if (options.rules) {
    globals.data = PrintRules(log, globals.json);
    return absl::OkStatus();
  }
  const auto is_pass = [&](const RewriteLog::Pass& p) { return p.id == options.pass; };
  if (options.pass != 0 && std::ranges::none_of(log.passes(), is_pass))
    return absl::NotFoundError(Cat("the recording has no pass ", options.pass));
  if (options.step == 0) {
    globals.data = PrintPasses(log, options, globals.json);
    return absl::OkStatus();
  }
  if (options.step > static_cast<int64_t>(log.steps().size()))
    return absl::NotFoundError(
        Cat("step (", options.step, ") is not between 1 and ", log.steps().size()));
  const auto index = static_cast<size_t>(options.step - 1);
  const RewriteLog::Step& s = log.steps()[index];
  const RewriteLog::Rule& rule = log.rule(s.rule);
  const std::string diff = log.Diff(index, options.whole);
  if (globals.json) {
    globals.data = json{{"step", options.step}, {"pass", log.passes()[s.pass].id},
                        {"rule", rule.name},    {"where", Where(rule)},
                        {"from", s.from},       {"to", s.to},
                        {"diff", diff}};
    return absl::OkStatus();
  }
  Print(Cat("step ", options.step, "  pass ", log.passes()[s.pass].id, " ",
            log.passes()[s.pass].name, "  ", rule.name, "  ", Where(rule), "\n    ", s.from,
            "\n -> ", s.to, "\n", diff));
  return absl::OkStatus();
}

}  // namespace

void AddViz(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<VizOptions>();
  CLI::App* viz = app.add_subcommand("viz", "rewrites recorded by VIZ=1 or UOPD_TRACE_REWRITES");
  viz->add_option("file", options->file, "the recording")->required();
  viz->add_option("--pass", options->pass, "only this pass")->check(NumberIn(1, 1e15));
  viz->add_option("--step", options->step, "show what this step did to the graph")
      ->check(NumberIn(1, 1e15));
  viz->add_flag("--rules", options->rules, "show what every rule did");
  viz->add_flag("--whole", options->whole, "with --step: show also the nodes that stay");
  viz->callback([&globals, options] { globals.status = Viz(globals, *options); });
}

}  // namespace uopd::cli
