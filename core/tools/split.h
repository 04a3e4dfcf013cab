// SPDX-License-Identifier: MIT
// Split: splits the value of a command-line option.
#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

namespace uopd::tools {

// The parts between separators; none for an empty text.
inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace uopd::tools
