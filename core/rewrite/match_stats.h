// SPDX-License-Identifier: MIT
// What every rewrite rule has done in this process.
//
// Attempts and matches are always counted (per Rewriter, added when it dies); times only with
// TRACK_MATCH_STATS=1 or more, which also prints the table to stderr when the process exits.
// Thread-safe; figures of Rewriters that still live are missing.
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

// Every rule of every frozen set, most time first, then most attempts, then by name.
std::vector<RuleStats> MatchStats();

// The same as text: a line per rule that was tried, totals, and the rules that never matched.
std::string MatchStatsTable();

// Path of a source file below the root of the tree.
std::string_view SourcePath(std::string_view file);

// Makes rules show up in MatchStats; called by RuleSet::Freeze. Rules stay for ever.
void RegisterForStats(const std::vector<std::shared_ptr<const Rule>>& rules);

}  // namespace uopd::rewrite
