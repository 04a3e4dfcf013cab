// SPDX-License-Identifier: MIT
// uopd_cluster_sim: simulates clusters of daemons and prints a table. `--NAME VALUE` changes an
// option; --daemons takes a list, as 1000,10000. --csv FILE gets a line for each of them.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/simulation/report.h"
#include "tests/simulation/seal.h"

namespace {

using namespace uopd::sim;

double PeakGiB() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2)
    given[argv[i] + (std::strncmp(argv[i], "--", 2) == 0 ? 2 : 0)] = argv[i + 1];
  const auto number = [&](const char* name, double otherwise) {
    const auto it = given.find(name);
    const double value = it == given.end() ? otherwise : std::atof(it->second.c_str());
    if (it != given.end()) given.erase(it);
    return value;
  };
  const auto seal = MakeSealKey();
  if (!seal.ok()) return 1;
  WorldOptions options;
  options.daemon.cluster.sign = *seal;
  options.daemon.cluster.trusted = {*seal};
  options.duration_us = static_cast<int64_t>(number("minutes", 60) * kMinute);
  options.ramp_us = static_cast<int64_t>(number("ramp", 0) * kMinute);
  options.seed = static_cast<uint64_t>(number("seed", 1));
  options.environments = static_cast<uint32_t>(number("environments", options.environments));
  options.crashes_per_hour = number("crashes", options.crashes_per_hour);
  options.owner_crashes = static_cast<int>(number("owner-crashes", options.owner_crashes));
  options.cuts_per_hour = number("cuts", options.cuts_per_hour);
  options.server_restarts = static_cast<int>(number("restarts", options.server_restarts));
  options.daemon.requests_per_hour = number("requests", options.daemon.requests_per_hour);
  options.daemon.bad_share = number("bad", options.daemon.bad_share);
  options.daemon.zipf = number("zipf", options.daemon.zipf);
  options.tier.shards = static_cast<int>(number("shards", options.tier.shards));
  options.tier.server.max_bytes = static_cast<int64_t>(number("server-mb", 0) * (1 << 20));
  if (number("progress", 0) != 0) {
    options.on_minute = [](const Stats& s) {
      const size_t minute = s.busy_us.size();
      std::fprintf(stderr,
                   "minute %zu: busy %lld %%, %lld tunings, %lld again, %lld late; a second:",
                   minute, static_cast<long long>(100 * s.busy_us.back() / kMinute),
                   static_cast<long long>(s.tunings), static_cast<long long>(s.tuned_again),
                   static_cast<long long>(s.timeouts));
      for (size_t i = 0; i < kCommandNames.size() && minute <= s.kinds.size(); ++i)
        std::fprintf(stderr, " %s %lld", kCommandNames[i],
                     static_cast<long long>(s.kinds[minute - 1][i] / 60));
      std::fputs("\n", stderr);
    };
  }
  const std::string list = given.contains("daemons") ? given["daemons"] : "1000";
  given.erase("daemons");
  const std::string csv = given["csv"];
  given.erase("csv");
  if (!given.empty() || argc % 2 == 0) {
    std::fprintf(stderr, "unknown option\n");
    return 2;
  }
  std::FILE* const out = csv.empty() ? nullptr : std::fopen(csv.c_str(), "w");
  if (!csv.empty() && out == nullptr) {
    std::fprintf(stderr, "cannot write %s\n", csv.c_str());
    return 1;
  }
  if (out != nullptr) std::fputs(CsvHead().c_str(), out);
  std::string table = TableHead();
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    options.daemons = static_cast<uint32_t>(std::atoi(list.substr(at, end - at).c_str()));
    at = end + 1;
    const auto begin = std::chrono::steady_clock::now();
    const double before_gib = PeakGiB();
    World world(options);
    world.Run();
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%u daemons\n%stook %.1f s, peak memory %.2f GiB, %.1f KiB a daemon\n\n",
                options.daemons, Details(world).c_str(), took, PeakGiB(),
                (PeakGiB() - before_gib) * (1 << 20) / options.daemons);
    std::fflush(stdout);
    table += TableRow(world);
    if (out != nullptr) std::fputs(CsvRow(world, took, PeakGiB()).c_str(), out), std::fflush(out);
  }
  if (out != nullptr) std::fclose(out);
  std::printf("%s", table.c_str());
}
