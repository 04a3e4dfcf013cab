// SPDX-License-Identifier: MIT
// The rows of the benchmarks of the rewrite engine.
//
// A visit is one node on which a whole rule set is tried, once: with sources that are done, or for
// what a rule has just returned. It includes what the rules that apply build, Rewriters that rules
// run for themselves (whose own visits are not counted) and finding the nodes. An attempt is one
// rule tried on one node because the index of the set could not rule it out. The goal is one for
// visits; the fewer rules a graph gives cause to apply, the easier it is to reach, so each row
// comes with its matches per visit.
#pragma once
#include <string>
#include <vector>

#include "tests/perf/perf.h"

namespace uopd::perf {

struct RewriteTiming {
  double seconds = 0;
  uint64_t visits = 0, attempts = 0, matches = 0;
};

inline void ReportRewrite(std::vector<Measurement>& out, const std::string& name,
                          const RewriteTiming& t) {
  constexpr double kGoal = 10e6;  // visits a second on one core
  constexpr char kGoalName[] = "goal";
  const auto visits = static_cast<double>(t.visits);
  out.push_back({"rewrite." + name, "visits/s", visits / t.seconds, kGoalName, kGoal});
  out.push_back(
      {"rewrite." + name + "_time", "ns/visit", t.seconds / visits * 1e9, kGoalName, 1e9 / kGoal});
  out.push_back({"rewrite." + name + "_attempts", "patterns/s",
                 static_cast<double>(t.attempts) / t.seconds, kGoalName, kGoal});
  out.push_back({"rewrite." + name + "_visits", "visits", visits, "", 0});
  out.push_back({"rewrite." + name + "_matches", "per visit",
                 static_cast<double>(t.matches) / visits, "", 0});
}

}  // namespace uopd::perf
