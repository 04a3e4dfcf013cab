// SPDX-License-Identifier: MIT
// One line of JSON on stdout.
#pragma once
#include <cstdio>
#include <nlohmann/json.hpp>

namespace uopd::cli {

inline void PrintJson(const nlohmann::json& value) {
  // Texts come from elsewhere; what is no UTF-8 is replaced and not thrown at.
  std::printf("%s\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace uopd::cli
