// SPDX-License-Identifier: MIT
#include "client/cli/operate/views.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_format.h"
#include "client/cli/cache/cache_flags.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

double UnixSeconds(uint64_t us) { return 1e-6 * static_cast<double>(us); }

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

json Counts(const google::protobuf::RepeatedPtrField<v1::NamedCount>& counts) {
  json out = json::object();
  for (const v1::NamedCount& one : counts) out[one.name()] = one.count();
  return out;
}

json Contents(const v1::ContentStatus& contents) {
  return {{"memory_bytes", contents.memory_bytes()},
          {"used_bytes", contents.used_bytes()},
          {"most_memory_bytes", contents.most_memory_bytes()},
          {"memory_contents", contents.memory_contents()},
          {"disk_bytes", contents.disk_bytes()},
          {"most_disk_bytes", contents.most_disk_bytes()},
          {"disk_contents", contents.disk_contents()},
          {"opened", contents.opened()},
          {"needed", contents.needed()},
          {"added", contents.added()},
          {"evicted", contents.evicted()},
          {"damaged", contents.damaged()}};
}

// "1.5 MiB of 4.0 GiB".
std::string Part(const json& used, const json& most) {
  return Cat(BytesText(used.get<uint64_t>()), " of ", BytesText(most.get<uint64_t>()));
}

void Line(std::string& out, const char* name, std::string_view text) {
  absl::StrAppendFormat(&out, "%-10s ", name);
  Append(out, text, "\n");
}

std::string NamedCounts(const json& counts) {
  std::string out;
  for (const auto& [name, count] : counts.items())
    Append(out, out.empty() ? "" : ", ", count.get<uint64_t>(), " ", name);
  return out.empty() ? "none" : out;
}

std::string ClusterLine(const json& cluster) {
  if (!cluster["configured"].get<bool>()) return "not configured";
  if (!cluster["reachable"].get<bool>())
    return Cat("not reachable: ", cluster["last_error"].get<std::string>());
  return Cat(cluster["too_slow"].get<bool>() ? "too slow for requests" : "reachable", ", ",
             BytesText(cluster["queue_bytes"].get<uint64_t>()), " wait to be sent");
}

}  // namespace

json ToJson(const v1::GetStatusResponse& status) {
  const double started = UnixSeconds(status.started_unix_us());
  json out = {{"version", status.version()},
              {"instance", status.instance()},
              {"pid", status.pid()},
              {"started_unix_seconds", started},
              {"uptime_seconds", std::max(Now() - started, 0.0)},
              {"state", status.state()},
              {"reasons", json::array()},
              {"devices", json::array()},
              {"sessions", {{"open", status.sessions()}, {"most", status.most_sessions()}}},
              {"pools", json::array()},
              {"memory",
               {{"client_bytes", status.client_bytes()},
                {"most_client_bytes", status.most_client_bytes()},
                {"resident_bytes", status.resident_bytes()}}},
              {"cache",
               {{"state", status.cache_state()},
                {"reason", status.cache_reason()},
                {"size_bytes", status.cache_bytes()},
                {"most_bytes", status.most_cache_bytes()}}},
              {"contents", Contents(status.contents())},
              {"cluster", ToJson(status.cluster())},
              {"workers", json::array()},
              {"recent_failures", status.recent_failures()}};
  for (const std::string& reason : status.reasons()) out["reasons"].push_back(reason);
  for (const v1::DeviceStatus& device : status.devices()) {
    out["devices"].push_back({{"name", device.name()},
                              {"state", device.state()},
                              {"reason", device.reason()},
                              {"used_bytes", device.used_bytes()},
                              {"pooled_bytes", device.pooled_bytes()},
                              {"most_bytes", device.most_bytes()}});
  }
  for (const v1::PoolStatus& pool : status.pools()) {
    out["pools"].push_back({{"name", pool.name()},
                            {"waiting", pool.waiting()},
                            {"busy", pool.busy()},
                            {"threads", pool.threads()}});
  }
  for (const v1::WorkerStatus& pool : status.workers()) {
    out["workers"].push_back({{"pool", pool.pool()},
                              {"busy", pool.busy()},
                              {"idle", pool.idle()},
                              {"done", pool.done()},
                              {"failed", pool.failed()},
                              {"crashed", pool.crashed()},
                              {"timed_out", pool.timed_out()},
                              {"refused", pool.refused()},
                              {"lost", pool.lost()},
                              {"quarantined", pool.quarantined()}});
  }
  return out;
}

json ToJson(const v1::ListSessionsResponse& sessions) {
  json out = {{"sessions", json::array()}, {"left_out", sessions.left_out()}};
  for (const v1::SessionStatus& session : sessions.sessions()) {
    json one = {{"id_prefix", session.id_prefix()},
                {"tenant", session.tenant()},
                {"peer", session.peer()},
                {"age_seconds", session.age_seconds()},
                {"idle_seconds", session.idle_seconds()},
                {"ttl_seconds", session.ttl_seconds()},
                {"buffers", session.buffers()},
                {"held_bytes", session.bytes()},
                {"calls", session.calls()},
                {"running", nullptr}};
    if (!session.running().empty()) {
      one["running"] = {{"graph", session.running()}, {"for_seconds", session.running_seconds()}};
    }
    out["sessions"].push_back(std::move(one));
  }
  return out;
}

json ToJson(const v1::ListSettingsResponse& settings, bool only_changed) {
  json out = json::array();
  for (const v1::Setting& setting : settings.settings()) {
    if (only_changed && setting.source() == "default") continue;
    out.push_back({{"key", setting.key()},
                   {"value", setting.value()},
                   {"source", setting.source()},
                   {"default", setting.default_value()},
                   {"reloadable", setting.reloadable()}});
  }
  return {{"settings", out}};
}

json ToJson(const v1::ClusterStatus& cluster) {
  return {{"configured", cluster.configured()},
          {"reachable", cluster.reachable()},
          {"too_slow", cluster.too_slow()},
          {"can_put", cluster.can_put()},
          {"daemons", cluster.daemons()},
          {"queue_bytes", cluster.queue_bytes()},
          {"last_error", cluster.last_error()},
          {"last_error_unix_seconds", UnixSeconds(cluster.last_error_unix_us())},
          {"lookups", Counts(cluster.lookups())},
          {"puts", Counts(cluster.puts())},
          {"refused", Counts(cluster.refused())}};
}

json ToJson(const v1::ListQuarantineResponse& quarantine) {
  json out = json::array();
  for (const v1::QuarantinedJob& job : quarantine.jobs()) {
    out.push_back({{"id", job.id()},
                   {"pool", job.pool()},
                   {"since_unix_seconds", job.since_unix_s()},
                   {"passing", job.passing()},
                   {"reason", job.reason()}});
  }
  return {{"jobs", out}};
}

std::string StatusPage(const json& status) {
  std::string out;
  const auto text = [&](const char* key) { return status[key].get<std::string>(); };
  Line(out, "state", text("state"));
  for (const json& reason : status["reasons"]) Line(out, "", Cat("- ", reason.get<std::string>()));
  Line(out, "version",
       Cat(text("version"), ", process ", status["pid"].get<int64_t>(), ", up for ",
           TimeText(status["uptime_seconds"].get<double>())));
  for (const json& device : status["devices"]) {
    const std::string state = device["state"].get<std::string>();
    std::string line = Cat(device["name"].get<std::string>(), " ", state);
    if (state == "ready") Append(line, ", ", Part(device["used_bytes"], device["most_bytes"]));
    if (const auto reason = device["reason"].get<std::string>(); !reason.empty())
      Append(line, ": ", reason);
    Line(out, "device", line);
  }
  const json& sessions = status["sessions"];
  Line(out, "sessions",
       Cat(sessions["open"].get<uint64_t>(), " of ", sessions["most"].get<uint64_t>()));
  for (const json& pool : status["pools"]) {
    Line(out, "queue",
         Cat(pool["name"].get<std::string>(), ": ", pool["waiting"].get<uint64_t>(), " wait, ",
             pool["busy"].get<uint32_t>(), " of ", pool["threads"].get<uint32_t>(),
             " threads work"));
  }
  const json& memory = status["memory"];
  Line(out, "memory",
       Cat(Part(memory["client_bytes"], memory["most_client_bytes"]), " for clients, ",
           BytesText(memory["resident_bytes"].get<uint64_t>()), " resident"));
  const json& cache = status["cache"];
  std::string line =
      Cat(cache["state"].get<std::string>(), ", ", Part(cache["size_bytes"], cache["most_bytes"]));
  if (const auto reason = cache["reason"].get<std::string>(); !reason.empty())
    Append(line, ": ", reason);
  Line(out, "cache", line);
  const json& contents = status["contents"];
  const auto count = [&](const char* name) { return contents[name].get<uint64_t>(); };
  Line(out, "constants",
       Cat("memory: ", Part(contents["memory_bytes"], contents["most_memory_bytes"]), ", ",
           BytesText(count("used_bytes")),
           " in use; disk: ", Part(contents["disk_bytes"], contents["most_disk_bytes"]), "; ",
           count("opened"), " opened, ", count("added"), " added, ", count("evicted"), " evicted, ",
           count("damaged"), " damaged"));
  Line(out, "cluster", ClusterLine(status["cluster"]));
  for (const json& pool : status["workers"]) {
    Line(out, "workers",
         Cat(pool["pool"].get<std::string>(), ": ", pool["busy"].get<uint32_t>(), " busy, ",
             pool["idle"].get<uint32_t>(), " idle, ", pool["done"].get<uint64_t>(), " jobs done, ",
             pool["failed"].get<uint64_t>(), " failed, ", pool["crashed"].get<uint64_t>(),
             " crashed, ", pool["timed_out"].get<uint64_t>(), " timed out, ",
             pool["quarantined"].get<uint64_t>(), " in quarantine"));
  }
  Line(out, "failures", Cat(status["recent_failures"].get<uint64_t>(), " are remembered"));
  return out;
}

std::string ClusterPage(const json& cluster) {
  std::string out;
  Line(out, "state", ClusterLine(cluster));
  if (!cluster["configured"].get<bool>()) return out;
  Line(out, "puts by",
       cluster["can_put"].get<bool>() ? "this daemon and others"
                                      : "others alone: cache.cluster_sign_key is "
                                        "empty, or the cache is only read");
  const auto daemons = cluster["daemons"].get<uint64_t>();
  Line(out, "daemons", daemons == 0 ? "unknown" : Cat(daemons));
  Line(out, "lookups", NamedCounts(cluster["lookups"]));
  Line(out, "puts", NamedCounts(cluster["puts"]));
  Line(out, "refused", NamedCounts(cluster["refused"]));
  const auto error = cluster["last_error"].get<std::string>();
  if (error.empty()) return out;
  const double at = cluster["last_error_unix_seconds"].get<double>();
  Line(out, "last error", Cat(TimeText(std::max(Now() - at, 0.0)), " ago: ", error));
  return out;
}

}  // namespace uopd::cli
