// SPDX-License-Identifier: MIT
#include "tests/simulation/report.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace uopd::sim {
namespace {

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string Milliseconds(int64_t us) {
  return Fixed(static_cast<double>(us) / 1e3, us < 10'000 ? 2 : 0);
}
double Share(int64_t part, int64_t all) {
  return all == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}
int64_t Most(const std::vector<int64_t>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}
double Seconds(const World& world) {
  return static_cast<double>(world.options().duration_us + world.options().drain_us) / 1e6;
}
double Busy(const World& world) {
  int64_t sum = 0;
  for (const int64_t one : world.stats().busy_us) sum += one;
  return Share(sum, static_cast<int64_t>(world.stats().busy_us.size()) * kMinute);
}

}  // namespace

std::string TableHead() {
  return "| daemons | tunings | again | compiles | again | commands/s, mean | worst minute | "
         "server busy, mean | worst minute | "
         "lookup p50 ms | p99 ms | arrival p50 ms | p99 ms "
         "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
}

std::string TableRow(const World& world) {
  const Stats& s = world.stats();
  return Cat("| ", world.options().daemons, " | ", s.tunings, " | ",
             Fixed(Share(s.tuned_again, s.tunings), 3), " % | ", s.compiles, " | ",
             Fixed(Share(s.compiled_again, s.compiles), 3), " % | ",
             Fixed(static_cast<double>(s.all_commands()) / Seconds(world), 0), " | ",
             Fixed(static_cast<double>(Most(s.by_minute)) / 60, 0), " | ", Fixed(Busy(world), 1),
             " % | ", Fixed(Share(Most(s.busy_us), kMinute), 1), " % | ",
             Milliseconds(s.lookup.Quantile(0.5)), " | ", Milliseconds(s.lookup.Quantile(0.99)),
             " | ", Milliseconds(s.arrival.Quantile(0.5)), " | ",
             Milliseconds(s.arrival.Quantile(0.99)), " |\n");
}

std::string CsvHead() {
  return "daemons,minutes,shards,seed,requests,names,tunings,tuned_again,compiles,compiled_again,"
         "lost,crashes,crashes_of_searches,commands_per_s,commands_per_s_worst,busy,busy_worst,"
         "lookup_p50,lookup_p99,arrival_p50,arrival_p99,request_p99,no_answer,refused,took_s,"
         "peak_gib\n";
}

std::string CsvRow(const World& world, double took_s, double peak_gib) {
  const Stats& s = world.stats();
  const WorldOptions& options = world.options();
  std::string out;
  const auto add = [&](const auto& value) { out += Cat(out.empty() ? "" : ",", value); };
  add(options.daemons);
  add(options.duration_us / kMinute);
  add(options.tier.shards);
  add(options.seed);
  add(s.requests);
  add(world.keys().size() / 2);
  add(s.tunings);
  add(s.tuned_again);
  add(s.compiles);
  add(s.compiled_again);
  add(world.Lost());
  add(s.crashes);
  add(s.crashes_of_searches);
  add(Fixed(static_cast<double>(s.all_commands()) / Seconds(world), 0));
  add(Fixed(static_cast<double>(Most(s.by_minute)) / 60, 0));
  add(Fixed(Busy(world) / 100, 4));
  add(Fixed(Share(Most(s.busy_us), kMinute) / 100, 4));
  for (const int64_t us :
       {s.lookup.Quantile(0.5), s.lookup.Quantile(0.99), s.arrival.Quantile(0.5),
        s.arrival.Quantile(0.99), s.request.Quantile(0.99), s.timeouts, s.refused})
    add(us);
  add(Fixed(took_s, 1));
  add(Fixed(peak_gib, 2));
  return out + "\n";
}

std::string Details(const World& world) {
  const Stats& s = world.stats();
  std::string out =
      Cat("requests ", s.requests, ", names touched ", world.keys().size() / 2, ", hits here ",
          s.local_hits, ", of the server ", s.tier_hits, ", misses ", s.misses, "\ntunings ",
          s.tunings, ", again ", s.tuned_again, "; searches that were ended ", s.searches_ended,
          "\nnotices ", s.notices, ", heard by others ", s.notice.total(), ", p50 ",
          Milliseconds(s.notice.Quantile(0.5)), " p99 ", Milliseconds(s.notice.Quantile(0.99)),
          " ms\n");
  for (size_t i = 0; i < s.why_tuned.size(); ++i) {
    if (s.why_tuned[i] != 0)
      out += Cat("  tuned again, as ", kAgainNames[i], ": ", s.why_tuned[i], "\n");
    if (s.why_compiled[i] != 0)
      out += Cat("  compiled again, as ", kAgainNames[i], ": ", s.why_compiled[i], "\n");
  }
  out += Cat("compiles ", s.compiles, ", again ", s.compiled_again, "\nlost results ", world.Lost(),
             "\ncrashes ", s.crashes, ", of daemons that computed ", s.crashes_of_owners,
             ", in the middle of a tuning ", s.crashes_of_searches, "; cut off ", s.cuts,
             "\ncommands ", s.all_commands(), ":");
  for (size_t i = 0; i < s.commands.size(); ++i)
    out += Cat(" ", kCommandNames[i], " ", s.commands[i]);
  out += Cat("\nno answer in time ", s.timeouts, ", refused ", s.refused, ", bytes of records ",
             s.bytes, "\nanswer p50 ", Milliseconds(s.answer.Quantile(0.5)), " p99 ",
             Milliseconds(s.answer.Quantile(0.99)), " ms; request p50 ",
             Milliseconds(s.request.Quantile(0.5)), " p99 ", Milliseconds(s.request.Quantile(0.99)),
             " max ", Milliseconds(s.request.greatest()), " ms; arrivals ", s.arrival.total(),
             " max ", Milliseconds(s.arrival.greatest()), " ms\nbusy by minute (%):");
  for (const int64_t us : s.busy_us) out += Cat(" ", Fixed(Share(us, kMinute), 0));
  if (!s.kinds.empty()) {
    const auto worst = std::ranges::max_element(s.by_minute) - s.by_minute.begin();
    out += Cat("\ncommands of minute ", worst, ", a second:");
    for (size_t i = 0; i < kCommandNames.size(); ++i)
      out += Cat(" ", kCommandNames[i], " ", s.kinds[static_cast<size_t>(worst)][i] / 60);
  }
  return Cat(out, "\nevents ", world.events(), "\n");
}

}  // namespace uopd::sim
