// SPDX-License-Identifier: MIT
#include "core/base/telemetry/trace_parent.h"

#include <algorithm>

namespace uopd {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return DigitOf(c) >= 0; });
}

bool IsId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceParent> TraceParent::Parse(std::string_view text) {
  constexpr size_t kSize = 55;
  if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32),
                         parent = text.substr(36, 16), flags = text.substr(53, 2);
  if (!IsHex(version) || version == "ff" || !IsId(trace) || !IsId(parent) || !IsHex(flags)) {
    return std::nullopt;
  }
  if (text.size() > kSize && (version == "00" || text[kSize] != '-')) return std::nullopt;
  return TraceParent{std::string(trace), std::string(parent), (DigitOf(flags[1]) & 1) != 0};
}

}  // namespace uopd
