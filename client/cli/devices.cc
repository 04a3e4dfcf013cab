// SPDX-License-Identifier: MIT
// uopctl devices: what the daemon can compute on.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

absl::Status Devices(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  const v1::HelloResponse& hello = session->hello();
  if (globals.json) {
    json out = {{"server", hello.server()}, {"devices", json::array()}};
    for (const v1::Device& d : hello.devices()) {
      out["devices"].push_back({{"name", d.name()},
                                {"kind", d.kind()},
                                {"arch", d.arch()},
                                {"baseline", d.baseline()},
                                {"threads", d.threads()},
                                {"memory_bytes", d.memory_bytes()},
                                {"memory_used_bytes", d.memory_used_bytes()},
                                {"unavailable_reason", d.unavailable_reason()}});
    }
    globals.data = out;
    return absl::OkStatus();
  }
  std::printf("%s\n", hello.server().c_str());
  for (const v1::Device& d : hello.devices()) {
    if (!d.unavailable_reason().empty()) {
      std::printf("%-8s unavailable: %s\n", d.name().c_str(), d.unavailable_reason().c_str());
      continue;
    }
    const std::string baseline = d.baseline().empty() ? "" : " (" + d.baseline() + ")";
    std::printf("%-8s %s%s  %u threads  %.1f of %.1f GiB used\n", d.name().c_str(),
                d.arch().c_str(), baseline.c_str(), d.threads(),
                static_cast<double>(d.memory_used_bytes()) / (1 << 30),
                static_cast<double>(d.memory_bytes()) / (1 << 30));
  }
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Globals& globals) {
  app.add_subcommand("devices", "what the daemon can compute on")->callback([&globals] {
    globals.status = Devices(globals);
  });
}

}  // namespace uopd::cli
