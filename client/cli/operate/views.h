// SPDX-License-Identifier: MIT
// What operators are told about a daemon, as JSON: for the commands that show it, and for
// `diagnose`, which collects it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "uopd/v1/uopd.pb.h"

namespace uopd::cli {

nlohmann::json ToJson(const v1::GetStatusResponse& status);
nlohmann::json ToJson(const v1::ListSessionsResponse& sessions);
nlohmann::json ToJson(const v1::ListSettingsResponse& settings, bool only_changed);
nlohmann::json ToJson(const v1::ClusterStatus& cluster);
nlohmann::json ToJson(const v1::ListQuarantineResponse& quarantine);

// Pages for people, made from the same.
std::string StatusPage(const nlohmann::json& status);
std::string ClusterPage(const nlohmann::json& cluster);

}  // namespace uopd::cli
