// SPDX-License-Identifier: MIT
// Prints one line of JSON to stdout.
#pragma once
#include <cstdio>
#include <nlohmann/json.hpp>

namespace uopd::cli {

inline void PrintJson(const nlohmann::json& value) {
  // Texts may come from the daemon or from files. Bytes that are not UTF-8 are replaced; otherwise
  // dump() would throw.
  std::printf("%s\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace uopd::cli
