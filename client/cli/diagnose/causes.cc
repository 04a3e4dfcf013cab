// SPDX-License-Identifier: MIT
#include "client/cli/diagnose/causes.h"

#include <cmath>

#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

// What needs no reason to be looked at comes first.
constexpr CauseRule kRules[] = {
    {"unreachable", "missing.hello", "", 0, "the daemon does not answer",
     "look whether the process runs, at its log, and at --address and --token-file"},
    {"draining", "state", "draining", 0, "the daemon is shutting down",
     "start it again, or wait for whoever restarts it"},
    {"not_ready", "state", "not_ready", 0, "the daemon cannot serve requests properly",
     "the reasons of the state say why (uopctl status)"},
    {"degraded", "state", "degraded", 0,
     "requests are served, and something is not as it should be",
     "the reasons of the state say what (uopctl status)"},
    {"device_not_ready", "devices.not_ready", "", 0, "a device does not open, or was lost",
     "its reason says why (uopctl devices); look at the driver and at the kernel's log"},
    {"device_losses", "uopd_device_losses_total", "", 0,
     "a device was lost with everything on it since the start",
     "look for errors of the driver in the kernel's log; cool or replace the device if it happens "
     "again"},
    {"bugs", "uopd_bugs_total", "", 0, "an invariant of the daemon broke",
     "report the line msg=bug of the log, with its site; requests of that kind fail with INTERNAL"},
    {"cache_memory", "cache.state", "memory", 0,
     "the cache is in memory: everything is compiled again after a restart",
     "the reason of the cache says why: rights of server.data_dir, a full disk, a file of a newer "
     "version"},
    {"cache_read_only", "cache.state", "read_only", 0,
     "the cache is only read: new kernels are lost at the end",
     "make room on the disk of server.data_dir and look at its rights, or set cache.read_only to "
     "false"},
    {"cache_recovered", "cache.state", "recovered", 0,
     "the cache file was damaged and was made anew",
     "look at the disk; restore a backup of the data folder, or import a bundle"},
    {"cache_full", "cache.used_part", "", 0.95,
     "the cache is full: entries are removed, and are compiled again",
     "raise cache.max_bytes, or evict what is not used (uopctl cache evict --unused-hours)"},
    {"cluster_away", "cluster.away", "", 0,
     "the server of the cluster does not answer: this daemon goes on alone",
     "look at the server, at the network and at cache.cluster (uopctl cluster has the last error)"},
    {"cluster_slow", "cluster.too_slow", "", 0,
     "the server of the cluster is too slow for requests",
     "bring it nearer or make it faster, or raise cache.cluster_budget_ms"},
    {"cluster_puts", "cluster.puts_lost", "", 0, "records for the cluster failed or were dropped",
     "look at the server's memory limit and eviction policy; a full one that evicts nothing takes "
     "no records"},
    {"cluster_refused", "cluster.refused", "", 0, "records of the cluster were refused",
     "compare cache.cluster_trusted_keys and the versions of the daemons; a wrong signature may be "
     "an attack"},
    {"memory_high", "memory.used_part", "", 0.9,
     "clients hold over nine tenths of limits.total_bytes",
     "see who does (uopctl sessions); lower limits.session_bytes, or raise limits.total_bytes"},
    {"memory_refused", "uopd_memory_refused_total", "", 0,
     "memory was refused to clients since the start",
     "the label `limit` says which setting; see who holds memory (uopctl sessions)"},
    {"sessions_high", "sessions.used_part", "", 0.9,
     "nearly all sessions that limits.sessions allows are open",
     "see whose they are (uopctl sessions); lower session.ttl_ms, or raise limits.sessions"},
    {"queue", "pools.waiting", "", 0, "requests wait for a thread",
     "see what runs (uopctl sessions); a pool whose threads all work is what limits"},
    {"worker_crashes", "workers.crashed", "", 0, "jobs crashed worker processes",
     "uopctl quarantine list names them; if it is many kernels, look at memory and at the "
     "compiler"},
    {"worker_timeouts", "workers.timed_out", "", 0, "jobs of worker processes took too long",
     "the machine may be too busy; raise compile.timeout_ms or tune.run_ms if it is not"},
    {"quarantine", "quarantine.jobs", "", 0, "jobs are in quarantine and are not run again",
     "uopctl quarantine list says why; uopctl quarantine clear lets them be tried again"},
    {"recent_failures", "recent_failures", "", 0,
     "failures are remembered and answered from memory",
     "uopctl quarantine list shows them; they end by themselves"},
    {"fork_server", "uopd_fork_server_restarts_total", "", 0,
     "the fork server of the workers was restarted",
     "something killed or stopped it: look for the kernel's out-of-memory killer"},
    {"log_lost", "uopd_log_lines_lost_total", "", 0, "lines of the log were lost",
     "the reader of the log is too slow, or its disk is full"},
    {"no_metrics", "missing.metrics", "", 0, "the metrics could not be read",
     "give --http HOST:PORT of server.http_listen; by default only the machine itself can reach "
     "it"},
    {"debug_level", "debug.level", "", 0,
     "debug.level is set: code of all requests goes to the log",
     "set it to 0 unless you look for something"},
    {"test_settings", "settings.for_tests", "", 0, "a setting that is for tests is set",
     "remove device.force_async_us and device.memory_pattern"},
};

// The parts of `a` that `b` may have at most; nothing if it has no limit.
void AddPart(Facts& out, const char* name, const json& used, const json& most) {
  const double limit = most.get<double>();
  if (limit > 0) out.numbers[name] = used.get<double>() / limit;
}

void AddStatus(const json& status, Facts& out) {
  out.texts["state"] = status["state"].get<std::string>();
  out.texts["cache.state"] = status["cache"]["state"].get<std::string>();
  AddPart(out, "cache.used_part", status["cache"]["size_bytes"], status["cache"]["most_bytes"]);
  AddPart(out, "memory.used_part", status["memory"]["client_bytes"],
          status["memory"]["most_client_bytes"]);
  AddPart(out, "sessions.used_part", status["sessions"]["open"], status["sessions"]["most"]);
  double not_ready = 0, waiting = 0, crashed = 0, timed_out = 0;
  for (const json& device : status["devices"]) not_ready += device["state"] == "not_ready" ? 1 : 0;
  for (const json& pool : status["pools"])
    if (pool["name"] == "requests" || pool["name"] == "long_runs" || pool["name"] == "graphs")
      waiting += pool["waiting"].get<double>();
  for (const json& pool : status["workers"]) {
    if (pool["pool"] == "tuning" || pool["pool"] == "measure") continue;  // candidates may do that
    crashed += pool["crashed"].get<double>();
    timed_out += pool["timed_out"].get<double>();
  }
  out.numbers["devices.not_ready"] = not_ready;
  out.numbers["pools.waiting"] = waiting;
  out.numbers["workers.crashed"] = crashed;
  out.numbers["workers.timed_out"] = timed_out;
  out.numbers["recent_failures"] = status["recent_failures"].get<double>();
  const json& cluster = status["cluster"];
  if (!cluster["configured"].get<bool>()) return;
  out.numbers["cluster.away"] = cluster["reachable"].get<bool>() ? 0 : 1;
  out.numbers["cluster.too_slow"] = cluster["too_slow"].get<bool>() ? 1 : 0;
  out.numbers["cluster.puts_lost"] =
      cluster["puts"].value("failed", 0.0) + cluster["puts"].value("dropped", 0.0);
  out.numbers["cluster.refused"] = cluster["lookups"].value("refused", 0.0);
}

}  // namespace

Facts FactsOf(const json& collected, const std::vector<Sample>& samples) {
  Facts out;
  if (const auto status = collected.find("status"); status != collected.end())
    AddStatus(*status, out);
  if (const auto found = collected.find("quarantine"); found != collected.end()) {
    double jobs = 0;
    for (const json& job : (*found)["jobs"]) jobs += job["passing"].get<bool>() ? 0 : 1;
    out.numbers["quarantine.jobs"] = jobs;
  }
  if (const auto found = collected.find("settings"); found != collected.end()) {
    double for_tests = 0;
    for (const json& setting : (*found)["settings"]) {
      const json& key = setting["key"];
      if (key == "debug.level") out.numbers["debug.level"] = setting["value"] != "0" ? 1 : 0;
      const bool test = key == "device.force_async_us" || key == "device.memory_pattern";
      if (test && setting["value"] != setting["default"]) ++for_tests;
    }
    out.numbers["settings.for_tests"] = for_tests;
  }
  if (const auto found = collected.find("missing"); found != collected.end())
    for (const auto& [part, why] : found->items()) out.numbers[Cat("missing.", part)] = 1;
  for (const Sample& sample : samples)
    if (std::isfinite(sample.value)) out.numbers[sample.name] += sample.value;
  return out;
}

std::span<const CauseRule> CauseRules() { return kRules; }

std::vector<const CauseRule*> LikelyCauses(const Facts& facts) {
  std::vector<const CauseRule*> out;
  for (const CauseRule& rule : kRules) {
    if (!rule.is.empty()) {
      const auto text = facts.texts.find(rule.fact);
      if (text != facts.texts.end() && text->second == rule.is) out.push_back(&rule);
    } else {
      const auto number = facts.numbers.find(rule.fact);
      if (number != facts.numbers.end() && number->second > rule.above) out.push_back(&rule);
    }
  }
  return out;
}

std::string CausesDocs() {
  std::string out = "| cause | means | what to do |\n|---|---|---|\n";
  for (const CauseRule& rule : kRules)
    Append(out, "| `", rule.id, "` | ", rule.cause, " | ", rule.remedy, " |\n");
  return out;
}

}  // namespace uopd::cli
