// SPDX-License-Identifier: MIT
#include "tests/perf/perf.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/perf/targets.h"

namespace uopd::perf {

std::vector<Entry>& Benchmarks() {
  static std::vector<Entry> entries;
  return entries;
}

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values.empty()
             ? 0
             : values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

double ResidentMiB() {
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

Paired RunPaired(int rounds, const std::function<void()>& a, const std::function<void()>& b) {
  Paired out;
  auto timed = [](const std::function<void()>& f) {
    const double start = NowSeconds();
    f();
    return NowSeconds() - start;
  };
  for (int i = 0; i < rounds; ++i) out.a.push_back(timed(a)), out.b.push_back(timed(b));
  return out;
}

}  // namespace uopd::perf

namespace {

constexpr char kUsage[] =
    "usage: uopd-perf list\n"
    "       uopd-perf NAME... [--json] [--address HOST:PORT] [--daemon PATH] [--scale X]\n"
    "                         [--model NAME] [--layers N] [--device NAME]\n";

void Show(const uopd::perf::Measurement& m, bool json) {
  const double ratio = m.peer > 0 ? m.value / m.peer : 0;
  const double target = uopd::perf::TargetOf(m.name), speed = uopd::perf::SpeedOf(m);
  const bool shows_target = target > 0 && speed > 0;
  if (json) {
    std::printf(
        "{\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"peer\": \"%s\", \"peer_value\": "
        "%.6g, \"ratio\": %.4g",
        m.name.c_str(), m.unit.c_str(), m.value, m.peer_name.c_str(), m.peer, ratio);
    if (shows_target) std::printf(", \"speed\": %.4g, \"target\": %.4g", speed, target);
    std::printf("}\n");
  } else if (m.peer > 0) {
    std::printf("%-44s %12.4g %-10s %s: %.4g, ratio %.3f", m.name.c_str(), m.value, m.unit.c_str(),
                m.peer_name.c_str(), m.peer, ratio);
  } else {
    std::printf("%-44s %12.4g %s", m.name.c_str(), m.value, m.unit.c_str());
  }
  if (!json) {
    if (shows_target)
      std::printf("  speed %.2f, target %.2f: %s", speed, target,
                  speed >= target ? "met" : "missed");
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  using uopd::perf::Benchmarks;
  uopd::perf::Options options;
  options.daemon =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "uopd").string();
  bool json = false;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--json")
      json = true;
    else if (arg == "--address" && has_value)
      options.address = argv[++i];
    else if (arg == "--daemon" && has_value)
      options.daemon = argv[++i];
    else if (arg == "--scale" && has_value)
      options.scale = std::atof(argv[++i]);
    else if (arg == "--model" && has_value)
      options.model = argv[++i];
    else if (arg == "--device" && has_value)
      options.device = argv[++i];
    else if (arg == "--layers" && has_value)
      options.layers = std::atoll(argv[++i]);
    else if (arg == "--help")
      return std::fputs(kUsage, stdout), 0;
    else if (arg.starts_with("--"))
      return std::fputs(kUsage, stderr), 2;
    else
      names.push_back(arg);
  }
  std::sort(Benchmarks().begin(), Benchmarks().end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  if (names.empty()) return std::fputs(kUsage, stderr), 2;
  if (names[0] == "list") {
    for (const auto& b : Benchmarks()) std::printf("%-16s %s\n", b.name.c_str(), b.doc.c_str());
    return 0;
  }
  options.report = [json](const uopd::perf::Measurement& m) { Show(m, json); };
  for (const std::string& name : names) {
    const auto it = std::find_if(Benchmarks().begin(), Benchmarks().end(),
                                 [&](const auto& b) { return b.name == name; });
    if (it == Benchmarks().end()) {
      std::fprintf(stderr, "uopd-perf: no benchmark is called %s; `uopd-perf list` names them\n",
                   name.c_str());
      return 2;
    }
    const auto out = it->run(options);
    if (!out.ok()) {
      std::fprintf(stderr, "uopd-perf: %s: %s\n", name.c_str(),
                   uopd::StatusText(out.status()).c_str());
      return 1;
    }
    for (const auto& m : *out) Show(m, json);
  }
  return 0;
}
