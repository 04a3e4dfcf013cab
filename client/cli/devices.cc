// SPDX-License-Identifier: MIT
// uopctl devices: what the daemon can compute on.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/command.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

// "features=+adx,+aes" has no space, so every space ends a fact.
json FactsOf(const std::string& target) {
  json out = json::object();
  std::istringstream in(target);
  for (std::string fact; in >> fact;) {
    const size_t equals = fact.find('=');
    if (equals != std::string::npos) out[fact.substr(0, equals)] = fact.substr(equals + 1);
  }
  return out;
}

json DescriptionOf(const v1::DeviceDescription& device) {
  json speeds = json::array();
  for (const v1::DeviceSpeed& speed : device.speeds()) {
    speeds.push_back({{"name", speed.name()},
                      {"unit", speed.unit()},
                      {"assumed", speed.assumed()},
                      {"measured", speed.measured()}});
  }
  return {{"name", device.name()},
          {"model", device.model()},
          {"facts", FactsOf(device.target())},
          {"speeds", std::move(speeds)}};
}

std::string NumberOr(double value, const char* none) {
  if (value == 0) return none;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return value >= 1000 ? std::to_string(std::llround(value)) : text;
}

void PrintDescription(const v1::DeviceDescription& device) {
  std::printf("\n%s\n", device.name().c_str());
  if (!device.model().empty()) std::printf("  %-20s %s\n", "model", device.model().c_str());
  const json facts = FactsOf(device.target());
  for (const auto& [name, value] : facts.items())
    std::printf("  %-20s %s\n", name.c_str(), value.get<std::string>().c_str());
  std::printf("  %-20s %10s %10s\n", "speeds of a processor", "assumed", "measured");
  for (const v1::DeviceSpeed& speed : device.speeds()) {
    std::printf("  %-20s %10s %10s  %s\n", speed.name().c_str(),
                NumberOr(speed.assumed(), "-").c_str(), NumberOr(speed.measured(), "-").c_str(),
                speed.unit().c_str());
  }
}

absl::Status Devices(Globals& globals, bool verbose) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  const v1::HelloResponse& hello = session->hello();
  v1::DescribeDevicesResponse described;
  if (verbose) {
    UOPD_ASSIGN(described, session->DescribeDevices());
  }
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
    for (const v1::DeviceDescription& device : described.devices())
      out["descriptions"].push_back(DescriptionOf(device));
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
  for (const v1::DeviceDescription& device : described.devices()) PrintDescription(device);
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Globals& globals) {
  CLI::App* command = app.add_subcommand("devices", "what the daemon can compute on");
  static bool verbose = false;
  command->add_flag("--verbose", verbose,
                    "what kernels are made for, and how fast the parts of the machine are; the "
                    "first time this measures for up to 300 ms");
  command->callback([&globals] { globals.status = Devices(globals, verbose); });
}

}  // namespace uopd::cli
