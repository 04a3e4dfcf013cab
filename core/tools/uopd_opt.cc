// SPDX-License-Identifier: MIT
// uopd-opt: reads textual IR, runs steps of the pipeline on it, prints the result. Needs no daemon.
//
//   uopd-opt --run=schedule graph.uop
//   uopd-opt --run=rules=symbolic,verify=kernel < kernel.uop
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "core/base/text.h"
#include "core/rules/rules.h"
#include "core/tools/run_text.h"

namespace {

constexpr char kUsage[] =
    "usage: uopd-opt [--run=STEP,STEP...] [FILE]\n"
    "       uopd-opt --list\n"
    "Steps: rules=SET, verify=tensor|kernel|program, schedule, lower[=OPT+OPT|=noopt], "
    "render=c|llvm.\n"
    "An OPT is NAME(axis;amount), NAME one of UPCAST, UNROLL, THREAD, VECTOR. Without FILE reads "
    "standard input.\n";

int List() {
  for (const uopd::rewrite::RuleSet* set : uopd::rules::AllRuleSets()) {
    std::printf("%s\n", std::string(set->name()).c_str());
    for (const auto& rule : set->rules()) {
      if (rule->set == set->name())
        std::printf("  %s.%s\n", std::string(rule->set).c_str(), std::string(rule->name).c_str());
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
    if (arg == "--help" || arg == "-h") return std::fputs(kUsage, stdout), 0;
    if (arg.starts_with("--run="))
      steps = arg.substr(6);
    else if (arg.starts_with("--"))
      return std::fputs(kUsage, stderr), 2;
    else
      file = arg;
  }
  std::ifstream in(file);
  if (!file.empty() && !in) {
    std::fprintf(stderr, "uopd-opt: cannot read %s\n", file.c_str());
    return 1;
  }
  std::istream& source = file.empty() ? std::cin : in;
  const std::string text(std::istreambuf_iterator<char>(source), {});
  const auto out = uopd::tools::RunText(steps, text);
  if (!out.ok()) {
    std::fprintf(stderr, "uopd-opt: %s\n", uopd::StatusText(out.status()).c_str());
    return 1;
  }
  std::fputs(out->c_str(), stdout);
  return 0;
}
