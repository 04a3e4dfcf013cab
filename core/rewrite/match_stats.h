// SPDX-License-Identifier: MIT
// Statistics of every rewrite rule in this process: attempts, matches, time.
//
// Attempts and matches are always counted; a Rewriter adds its counts when it is destroyed, so
// those of living Rewriters are missing. Times are measured only while a debug flag observes
// rewrites. TRACK_MATCH_STATS=1 or more prints the table to stderr at exit. Thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

struct RuleStats {
  std::string_view set, name, file;  // of the rule; file is relative to the source tree
  int line = 0;
  uint64_t attempts = 0, matches = 0;
  int64_t match_ns = 0, miss_ns = 0;  // time in attempts that matched, and that did not
};

// All rules of all frozen sets, by descending time, then descending attempts, then by name.
std::vector<RuleStats> MatchStats();

// MatchStats as text: one line per rule that was tried, totals, and the rules that never matched.
std::string MatchStatsTable();

// The path of a source file, relative to the root of the source tree.
std::string_view SourcePath(std::string_view file);

// Adds rules to MatchStats; called by RuleSet::Freeze. The rules live until the process exits.
void RegisterForStats(const std::vector<std::shared_ptr<const Rule>>& rules);

}  // namespace uopd::rewrite
