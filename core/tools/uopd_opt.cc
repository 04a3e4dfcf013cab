// SPDX-License-Identifier: MIT
// uopd-opt: reads textual IR, runs steps of the compiler on it, prints the result. Needs no daemon.
//
//   uopd-opt --run=schedule graph.uop
//   uopd-opt --run=rules=symbolic,verify=kernel < kernel.uop
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "core/base/config/debug_flags.h"
#include "core/base/text.h"
#include "core/codegen/pass_table.h"
#include "core/rewrite/match_stats.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/tools/passes.h"
#include "core/tools/run_text.h"

namespace {

constexpr char kUsage[] =
    "usage: uopd-opt [--run=STEP,STEP...] [--stop-after=PASS] [--trace[=FILE]] [--stats] [FILE]\n"
    "       uopd-opt --list\n"
    "Runs steps of the compiler on textual IR and prints the result; --list names them. Without "
    "FILE\n"
    "reads standard input.\n"
    "  --stop-after  after the steps, the passes of codegen up to this one\n"
    "  --trace       print every rewrite to standard error; with a FILE record them for uopctl "
    "viz\n"
    "  --stats       print what every rule did to standard error\n"
    "An OPT is NAME(number;number), as UPCAST(0;4): docs/codegen/opts.md has the names.\n";

// The text without the targets of its Markdown links: "[drafts](opts.md#drafts)" becomes "drafts".
std::string WithoutLinks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t middle = text.find("]("), begin = text.rfind('[', middle),
                 end = text.find(')', middle);
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    uopd::Append(out, text.substr(0, begin), text.substr(begin + 1, middle - begin - 1));
    text.remove_prefix(end + 1);
  }
  return uopd::Cat(out, text);
}

void ListStep(std::string_view name, std::string_view value, std::string_view doc) {
  const std::string head = value.empty()            ? std::string(name)
                           : value.starts_with('[') ? uopd::Cat(name, "[=", value.substr(1))
                                                    : uopd::Cat(name, "=", value);
  std::printf("  %-32s %s\n", head.c_str(), WithoutLinks(doc).c_str());
}

int List() {
  std::printf("steps\n");
  for (const uopd::tools::Pass& pass : uopd::tools::Passes())
    ListStep(pass.name, pass.value, pass.doc);
  ListStep("schedule", "[bf16|f16|tf32]",
           "the kernels of a tensor graph, with their buffers; may round products to the dtype");
  ListStep("kernel", "N", "goes on with kernel N of a tensor graph, as schedule numbers them");
  ListStep("lower", "[OPT+OPT|noopt]", "all of codegen: a kernel becomes a linear kernel");
  ListStep("target", "ARCH",
           "from here on for another chip: sm_90, gfx942, opencl, gpu, avx512, amx, ...");
  ListStep("threads", "N", "from here on for a CPU with so many threads, instead of one");
  ListStep("render", "[c|llvm|ptx|amdgpu]",
           "a linear kernel as text, by default in the target's language; another one is lowered "
           "first");
  ListStep("expr", "", "the root as one expression");
  ListStep("until", "PASS",
           "the passes of codegen up to this one, from the one after the last that was run");
  ListStep("opts", "OPT+OPT", "what choose_opts takes, instead of the heuristic's");
  std::printf("passes of codegen, in the order of lower\n");
  for (const uopd::codegen::Pass& pass : uopd::codegen::Passes()) ListStep(pass.name, "", pass.doc);
  std::printf("rule sets\n");
  for (const uopd::rewrite::RuleSet* set : uopd::rules::AllRuleSets()) {
    std::printf("  %s\n", std::string(set->name()).c_str());
    for (const auto& rule : set->rules()) {
      if (rule->set != set->name()) continue;
      std::printf("    %-30s %s:%u\n", rule->FullName().c_str(),
                  std::string(uopd::rewrite::SourcePath(rule->where.file_name())).c_str(),
                  rule->where.line());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string steps, file;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--list") return List();
    if (arg == "--help" || arg == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (arg.starts_with("--run=")) {
      steps = arg.substr(6);
    } else if (arg.starts_with("--stop-after=")) {
      steps += uopd::Cat(steps.empty() ? "" : ",", "until=", arg.substr(13));
    } else if (arg == "--trace") {
      uopd::rewrite::PrintEveryRewrite(true);
    } else if (arg == "--stats") {
      uopd::MutableDebug().track_match_stats = 1;  // printed at exit
    } else if (arg.starts_with("--trace=")) {
      if (absl::Status s = uopd::rewrite::TraceFile::Open(std::string(arg.substr(8))); !s.ok()) {
        std::fprintf(stderr, "uopd-opt: %s\n", uopd::StatusText(s).c_str());
        return 1;
      }
    } else if (arg.starts_with("--")) {
      std::fputs(kUsage, stderr);
      return 2;
    } else {
      file = arg;
    }
  }
  std::ifstream in(file);
  std::istream& source = file.empty() ? std::cin : in;
  std::ostringstream copy;
  source.peek();
  if (source.bad() ||
      (!file.empty() && !in.is_open())) {  // bad: opens and cannot be read: a folder
    std::fprintf(stderr, "uopd-opt: cannot read %s\n", file.c_str());
    return 1;
  }
  copy << source.rdbuf();
  const std::string text = std::move(copy).str();
  const auto out = uopd::tools::RunText(steps, text);
  if (!out.ok()) {
    std::fprintf(stderr, "uopd-opt: %s\n", uopd::StatusText(out.status()).c_str());
    return 1;
  }
  std::fputs(out->c_str(), stdout);
  return 0;
}
