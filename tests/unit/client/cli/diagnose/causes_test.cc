// SPDX-License-Identifier: MIT
#include "client/cli/diagnose/causes.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/support/generated_section.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

// What is collected of a daemon that is well.
json Well() {
  return json::parse(R"({
    "missing": {},
    "status": {
      "state": "ready",
      "cache": {"state": "ok", "size_bytes": 10, "most_bytes": 100},
      "memory": {"client_bytes": 10, "most_client_bytes": 100},
      "sessions": {"open": 1, "most": 10},
      "devices": [{"name": "CPU:0", "state": "ready"}],
      "pools": [{"name": "requests", "waiting": 0}, {"name": "compile", "waiting": 9}],
      "workers": [{"pool": "compile", "crashed": 0, "timed_out": 0},
                  {"pool": "tuning", "crashed": 3, "timed_out": 3}],
      "recent_failures": 0,
      "cluster": {"configured": true, "reachable": true, "too_slow": false,
                  "puts": {"sent": 5, "failed": 0, "dropped": 0}, "lookups": {"refused": 0}}
    },
    "quarantine": {"jobs": [{"passing": true}]},
    "settings": {"settings": [
      {"key": "debug.level", "value": "0", "default": "0"},
      {"key": "device.memory_pattern", "value": "-1", "default": "-1"}]}})");
}

std::set<std::string> CausesOf(const json& collected, const std::string& metrics = "") {
  std::set<std::string> out;
  for (const CauseRule* rule : LikelyCauses(FactsOf(collected, ReadSamples(metrics))))
    out.emplace(rule->id);
  return out;
}

TEST(CausesTest, ADaemonThatIsWellHasNone) {
  EXPECT_EQ(CausesOf(Well(), "uopd_bugs_total 0\nuopd_log_lines_lost_total 0\n"),
            std::set<std::string>());
  EXPECT_EQ(CausesOf(json::object()), std::set<std::string>());  // nothing is known
}

TEST(CausesTest, EachRuleFindsItsCauseAlone) {
  struct Row {
    const char* id;
    const char* pointer;  // what is changed; empty: a metric
    json value;
    const char* metrics = "";
  };
  const std::vector<Row> rows = {
      {"unreachable", "/missing/hello", "UNAVAILABLE: no answer"},
      {"draining", "/status/state", "draining"},
      {"not_ready", "/status/state", "not_ready"},
      {"degraded", "/status/state", "degraded"},
      {"device_not_ready", "/status/devices/0/state", "not_ready"},
      {"device_losses", "", {}, "uopd_device_losses_total{device=\"CUDA:0\",reason=\"700\"} 1\n"},
      {"bugs", "", {}, "uopd_bugs_total{site=\"core/x.cc:1\"} 2\n"},
      {"cache_memory", "/status/cache/state", "memory"},
      {"cache_read_only", "/status/cache/state", "read_only"},
      {"cache_recovered", "/status/cache/state", "recovered"},
      {"cache_full", "/status/cache/size_bytes", 99},
      {"cluster_away", "/status/cluster/reachable", false},
      {"cluster_slow", "/status/cluster/too_slow", true},
      {"cluster_puts", "/status/cluster/puts/dropped", 1},
      {"cluster_refused", "/status/cluster/lookups/refused", 1},
      {"memory_high", "/status/memory/client_bytes", 95},
      {"memory_refused", "", {}, "uopd_memory_refused_total{limit=\"limits.total_bytes\"} 1\n"},
      {"sessions_high", "/status/sessions/open", 10},
      {"queue", "/status/pools/0/waiting", 3},
      {"worker_crashes", "/status/workers/0/crashed", 1},
      {"worker_timeouts", "/status/workers/0/timed_out", 1},
      {"quarantine", "/quarantine/jobs/0/passing", false},
      {"recent_failures", "/status/recent_failures", 1},
      {"fork_server", "", {}, "uopd_fork_server_restarts_total 1\n"},
      {"log_lost", "", {}, "uopd_log_lines_lost_total 7\n"},
      {"no_metrics", "/missing/metrics", "UNAVAILABLE"},
      {"debug_level", "/settings/settings/0/value", "4"},
      {"test_settings", "/settings/settings/1/value", "165"},
  };
  std::set<std::string> tested;
  for (const Row& row : rows) {
    json collected = Well();
    if (*row.pointer != '\0') {
      const json::json_pointer at(row.pointer);
      collected[at] = row.value;
    }
    EXPECT_EQ(CausesOf(collected, row.metrics), std::set<std::string>{row.id}) << row.id;
    tested.insert(row.id);
  }
  for (const CauseRule& rule : CauseRules())
    EXPECT_TRUE(tested.contains(std::string(rule.id))) << rule.id << " has no row";
}

TEST(CausesTest, AreInTheDocs) {
  test::ExpectGenerated("operations/looking.md", "likely causes", CausesDocs());
}

TEST(SamplesTest, LinesOfMetricsAreRead) {
  const auto samples = ReadSamples(
      "# HELP x y\nuopd_a 1.5\nuopd_b{p=\"a\\\"b\",q=\"c,d}\"} 2 1700000000\nbroken\nuopd_c{ 1\n"
      "uopd_d +Inf\n");
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name, "uopd_a");
  EXPECT_EQ(samples[0].value, 1.5);
  ASSERT_EQ(samples[1].labels.size(), 2u);
  EXPECT_EQ(samples[1].labels[0], (std::pair<std::string, std::string>("p", "a\"b")));
  EXPECT_EQ(samples[1].labels[1].second, "c,d}");
  EXPECT_EQ(samples[1].value, 2);
  EXPECT_EQ(samples[2].name, "uopd_d");
}

}  // namespace
}  // namespace uopd::cli
