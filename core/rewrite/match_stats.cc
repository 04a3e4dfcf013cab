// SPDX-License-Identifier: MIT
#include "core/rewrite/match_stats.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "core/base/config/debug_flags.h"
#include "core/base/mutex.h"
#include "core/base/text.h"

namespace uopd::rewrite {
namespace {

// Never destroyed: the table is printed after static rule sets are gone.
struct Registry {
  Mutex mu;
  std::vector<std::shared_ptr<const Rule>> rules UOPD_GUARDED_BY(mu);
  absl::flat_hash_set<const Rule*> known UOPD_GUARDED_BY(mu);
};
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

std::string Milliseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(ns) / 1e6);
  return text;
}

void AppendRow(std::string& out, std::string_view matches, std::string_view attempts,
               std::string_view match_ms, std::string_view total_ms, std::string_view rest) {
  for (std::string_view column : {matches, attempts, match_ms, total_ms}) {
    out.append(column.size() < 12 ? 12 - column.size() : 0, ' ');
    Append(out, column, " ");
  }
  Append(out, " ", rest, "\n");
}

}  // namespace

void RegisterForStats(const std::vector<std::shared_ptr<const Rule>>& rules) {
  static const bool printing =
      Debug().track_match_stats >= 1 &&
      std::atexit([] { std::fputs(MatchStatsTable().c_str(), stderr); }) == 0;
  (void)printing;
  Registry& registry = TheRegistry();
  const MutexLock lock(registry.mu);
  for (const auto& rule : rules) {
    if (registry.known.insert(rule.get()).second) registry.rules.push_back(rule);
  }
}

std::string_view SourcePath(std::string_view file) {
  // The prefix of this file's own path is the root of the source tree, as the compiler saw it.
  constexpr std::string_view kThis = std::source_location::current().file_name();
  constexpr size_t kRoot = kThis.find("core/rewrite/match_stats.cc");
  static_assert(kRoot != std::string_view::npos);
  return file.starts_with(kThis.substr(0, kRoot)) ? file.substr(kRoot) : file;
}

std::vector<RuleStats> MatchStats() {
  std::vector<RuleStats> out;
  {
    Registry& registry = TheRegistry();
    const MutexLock lock(registry.mu);
    for (const auto& rule : registry.rules) {
      const RuleCounts& c = rule->counts;
      out.push_back({rule->set, rule->name, SourcePath(rule->where.file_name()),
                     static_cast<int>(rule->where.line()), c.attempts.load(), c.matches.load(),
                     c.match_ns.load(), c.miss_ns.load()});
    }
  }
  std::sort(out.begin(), out.end(), [](const RuleStats& a, const RuleStats& b) {
    const int64_t x = a.match_ns + a.miss_ns, y = b.match_ns + b.miss_ns;
    if (x != y) return x > y;
    if (a.attempts != b.attempts) return a.attempts > b.attempts;
    return std::tuple(a.set, a.name, a.line) < std::tuple(b.set, b.name, b.line);
  });
  return out;
}

std::string MatchStatsTable() {
  std::string out, never;
  AppendRow(out, "matches", "attempts", "match ms", "total ms", "rule");
  RuleStats sum;
  size_t tried = 0, matched = 0;
  const std::vector<RuleStats> all = MatchStats();
  for (const RuleStats& r : all) {
    if (r.matches == 0) Append(never, never.empty() ? "" : " ", r.set, ".", r.name);
    if (r.attempts == 0) continue;
    ++tried;
    matched += r.matches > 0;
    sum.attempts += r.attempts;
    sum.matches += r.matches;
    sum.match_ns += r.match_ns;
    sum.miss_ns += r.miss_ns;
    AppendRow(out, Cat(r.matches), Cat(r.attempts), Milliseconds(r.match_ns),
              Milliseconds(r.match_ns + r.miss_ns),
              Cat(r.set, ".", r.name, "  ", r.file, ":", r.line));
  }
  AppendRow(out, Cat(sum.matches), Cat(sum.attempts), Milliseconds(sum.match_ns),
            Milliseconds(sum.match_ns + sum.miss_ns),
            Cat("all; of ", all.size(), " rules ", tried, " tried, ", matched, " matched"));
  if (!never.empty()) Append(out, "never matched: ", never, "\n");
  return out;
}

}  // namespace uopd::rewrite
