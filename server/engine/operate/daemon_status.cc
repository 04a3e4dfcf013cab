// SPDX-License-Identifier: MIT
#include "server/engine/operate/daemon_status.h"

#include "core/base/status.h"

namespace uopd::engine {

const char* Name(DaemonState state) {
  switch (state) {
    case DaemonState::kReady:
      return "ready";
    case DaemonState::kDegraded:
      return "degraded";
    case DaemonState::kNotReady:
      return "not_ready";
    case DaemonState::kDraining:
      return "draining";
  }
  UOPD_CHECK(false);
}

const char* Name(DeviceReadiness readiness) {
  switch (readiness) {
    case DeviceReadiness::kReady:
      return "ready";
    case DeviceReadiness::kNotReady:
      return "not_ready";
    case DeviceReadiness::kNotOpened:
      return "not_opened";
    case DeviceReadiness::kCompileOnly:
      return "compile_only";
  }
  UOPD_CHECK(false);
}

std::vector<SettingView> ViewsOf(const Config& config) {
  std::vector<SettingView> out;
  const std::vector<Config::Value> values = config.Values();
  for (size_t i = 0; i < values.size(); ++i) {
    const SettingSpec& spec = Settings()[i];
    out.push_back({.key = spec.key,
                   .value = values[i].text,
                   .source = values[i].source,
                   .default_value = std::string(spec.default_text),
                   .reloadable = spec.reloadable});
  }
  return out;
}

void TakeReloadable(const Config& config, std::vector<SettingView>& views) {
  std::vector<SettingView> read = ViewsOf(config);
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].reloadable) views[i] = std::move(read[i]);
  }
}

}  // namespace uopd::engine
