// SPDX-License-Identifier: MIT
// uopctl metrics: one GET of the daemon's /metrics.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/http_get.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

// JSON has no infinity.
nlohmann::json NumberJson(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

absl::Status Metrics(Globals& globals, const std::string& http, const std::string& filter) {
  UOPD_ASSIGN(const std::string body, GetMetrics(http, globals.timeout_s));
  std::string chosen;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    if (filter.empty() || (!line.starts_with('#') && line.find(filter) != std::string::npos))
      Append(chosen, line, "\n");
    at = end + 1;
  }
  if (!globals.json) {
    chosen = WithoutControls(chosen, "\n\t");
    std::fwrite(chosen.data(), 1, chosen.size(), stdout);
    return absl::OkStatus();
  }
  nlohmann::json samples = nlohmann::json::array();
  for (const Sample& sample : ReadSamples(chosen)) {
    nlohmann::json labels = nlohmann::json::object();
    for (const auto& [key, value] : sample.labels) labels[key] = value;
    samples.push_back(
        {{"name", sample.name}, {"labels", labels}, {"value", NumberJson(sample.value)}});
  }
  globals.data = {{"samples", samples}};
  return absl::OkStatus();
}

}  // namespace

void AddMetrics(CLI::App& app, Globals& globals) {
  struct Flags {
    std::string http = kHttpAddress, filter;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("metrics", "the daemon's metrics, as Prometheus reads them");
  AddHttpOption(*command, flags->http);
  command->add_option("filter", flags->filter, "print only samples that contain this");
  command->callback(
      [&globals, flags] { globals.status = Metrics(globals, flags->http, flags->filter); });
}

}  // namespace uopd::cli
