// SPDX-License-Identifier: MIT
// uopctl devices, uopctl cache stats: what the daemon says about itself.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

void PrintJson(const json& value) {
  // Texts come from elsewhere; what is no UTF-8 is replaced and not thrown at.
  std::printf("%s\n", value.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

absl::Status Devices(const Globals& globals) {
  UOPD_ASSIGN(auto connection, globals.Connect());
  const v1::HelloResponse& hello = connection->hello();
  if (globals.json) {
    json out = {{"server", hello.server()}, {"devices", json::array()}};
    for (const v1::Device& d : hello.devices()) {
      out["devices"].push_back({{"name", d.name()},
                                {"kind", d.kind()},
                                {"arch", d.arch()},
                                {"threads", d.threads()},
                                {"memory_bytes", d.memory_bytes()},
                                {"memory_used_bytes", d.memory_used_bytes()},
                                {"unavailable_reason", d.unavailable_reason()}});
    }
    PrintJson(out);
    return absl::OkStatus();
  }
  std::printf("%s\n", hello.server().c_str());
  for (const v1::Device& d : hello.devices()) {
    if (!d.unavailable_reason().empty()) {
      std::printf("%-8s unavailable: %s\n", d.name().c_str(), d.unavailable_reason().c_str());
      continue;
    }
    std::printf("%-8s %s  %u threads  %.1f of %.1f GiB used\n", d.name().c_str(), d.arch().c_str(),
                d.threads(), static_cast<double>(d.memory_used_bytes()) / (1 << 30),
                static_cast<double>(d.memory_bytes()) / (1 << 30));
  }
  return absl::OkStatus();
}

absl::Status CacheStats(const Globals& globals) {
  UOPD_ASSIGN(auto connection, globals.Connect());
  UOPD_ASSIGN(const v1::GetCacheStatsResponse stats, connection->CacheStats());
  if (globals.json) {
    json out = {{"state", stats.state()},
                {"reason", stats.reason()},
                {"file_bytes", stats.file_bytes()},
                {"max_bytes", stats.max_bytes()},
                {"stores", json::array()}};
    for (const v1::StoreStats& s : stats.stores()) {
      out["stores"].push_back({{"store", s.store()},
                               {"rows", s.rows()},
                               {"bytes", s.bytes()},
                               {"hits", s.hits()},
                               {"misses", s.misses()},
                               {"corrupt", s.corrupt()},
                               {"key_mismatches", s.key_mismatches()},
                               {"puts", s.puts()},
                               {"evictions", s.evictions()}});
    }
    PrintJson(out);
    return absl::OkStatus();
  }
  std::printf("state %s%s%s, %.1f of %.1f MiB\n", stats.state().c_str(),
              stats.reason().empty() ? "" : ": ", stats.reason().c_str(),
              static_cast<double>(stats.file_bytes()) / (1 << 20),
              static_cast<double>(stats.max_bytes()) / (1 << 20));
  std::printf("%-12s %8s %12s %8s %8s %8s %8s %8s\n", "store", "rows", "bytes", "hits", "misses",
              "corrupt", "puts", "evicted");
  for (const v1::StoreStats& s : stats.stores()) {
    std::printf(
        "%-12s %8llu %12llu %8llu %8llu %8llu %8llu %8llu\n", s.store().c_str(),
        static_cast<unsigned long long>(s.rows()), static_cast<unsigned long long>(s.bytes()),
        static_cast<unsigned long long>(s.hits()), static_cast<unsigned long long>(s.misses()),
        static_cast<unsigned long long>(s.corrupt()), static_cast<unsigned long long>(s.puts()),
        static_cast<unsigned long long>(s.evictions()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Globals& globals) {
  app.add_subcommand("devices", "what the daemon can compute on")->callback([&globals] {
    globals.status = Devices(globals);
  });
}

void AddCache(CLI::App& app, Globals& globals) {
  CLI::App* cache = app.add_subcommand("cache", "the daemon's kernel cache");
  cache->require_subcommand(1);
  cache->add_subcommand("stats", "rows, bytes, hits and misses by store")->callback([&globals] {
    globals.status = CacheStats(globals);
  });
}

}  // namespace uopd::cli
