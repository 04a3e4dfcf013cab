// SPDX-License-Identifier: MIT
// uopd_chaos: everything that goes wrong around a daemon, at the same time, against a real one
// (docs/testing.md, "Chaos").
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tests/chaos/scenario.h"

namespace {

constexpr char kUsage[] =
    "usage: uopd_chaos [SCENARIO] [--seconds S] [--times N] [--seed N] [--without ACTOR]... \n"
    "                  [--only ACTOR]... [--uopd PATH] [--keep]\n"
    "       uopd_chaos list\n";

void List() {
  std::puts("scenarios:");
  for (const auto& s : uopd::chaos::Scenarios()) {
    std::printf("  %-20s %s\n", s.name.c_str(), s.doc.c_str());
  }
  std::puts("actors:");
  for (const auto& a : uopd::chaos::Actors()) {
    std::printf("  %-20s %s\n", a.name.c_str(), a.doc.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace uopd::chaos;
  Settings settings;
  settings.program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "uopd").string();
  std::string name = "chaos";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--keep") {
      settings.keep = true;
    } else if (arg == "--seconds" && has_value) {
      settings.seconds = std::atof(argv[++i]);
    } else if (arg == "--times" && has_value) {
      settings.times = std::atoll(argv[++i]);
    } else if (arg == "--seed" && has_value) {
      settings.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (arg.starts_with("--without=")) {
      settings.without.insert(std::string(arg.substr(arg.find('=') + 1)));
    } else if (arg == "--without" && has_value) {
      settings.without.insert(argv[++i]);
    } else if (arg == "--only" && has_value) {
      settings.only.insert(argv[++i]);
    } else if (arg == "--uopd" && has_value) {
      settings.program = argv[++i];
    } else if (!arg.starts_with("--")) {
      name = arg;
    } else {
      return std::fputs(kUsage, stderr), 2;
    }
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(Scenarios().begin(), Scenarios().end(), by_name);
  std::sort(Actors().begin(), Actors().end(), by_name);
  for (const auto* names : {&settings.without, &settings.only}) {
    for (const std::string& actor : *names) {
      if (FindActor(actor) != nullptr) continue;
      std::fprintf(stderr, "uopd_chaos: no actor is called %s; `uopd_chaos list` names them\n",
                   actor.c_str());
      return 2;
    }
  }
  if (name == "list") return List(), 0;
  const auto found = std::find_if(Scenarios().begin(), Scenarios().end(),
                                  [&](const Scenario& s) { return s.name == name; });
  if (found == Scenarios().end()) return std::fputs(kUsage, stderr), 2;
  Report report;
  const absl::Status status = found->run(settings, report);
  if (absl::IsUnimplemented(status)) {  // this machine cannot run it
    std::fprintf(stderr, "uopd_chaos: skipped: %s\n", uopd::StatusText(status).c_str());
    return 77;
  }
  if (!status.ok()) report.Violation("harness", uopd::StatusText(status));
  std::puts(report.Json(name, settings.seed).c_str());
  return report.violations() == 0 ? 0 : 1;
}
