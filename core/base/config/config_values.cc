// SPDX-License-Identifier: MIT
#include "core/base/config/config_values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace uopd::config {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ll << 10},
    {"MiB", 1ll << 20},
    {"GiB", 1ll << 30},
    {"TiB", 1ll << 40},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000 * 1000},
    {"GB", 1000ll * 1000 * 1000},
    {"TB", 1000ll * 1000 * 1000 * 1000},
};
constexpr Unit kTimeUnits[] = {
    {"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

// Parses a whole number, optional spaces and a unit.
bool ParseScaled(std::string_view text, std::span<const Unit> units, int64_t* out) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  std::string_view suffix(rest, static_cast<size_t>(end - rest));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const Unit& unit : units) {
    if (suffix == unit.name) return !__builtin_mul_overflow(number, unit.factor, out);
  }
  return false;
}

}  // namespace

bool ParseValue(std::string_view text, bool* out) {
  if (text == "true" || text == "on" || text == "yes" || text == "1") {
    *out = true;
    return true;
  }
  if (text == "false" || text == "off" || text == "no" || text == "0") {
    *out = false;
    return true;
  }
  return false;
}

bool ParseValue(std::string_view text, int64_t* out) {
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && rest == text.data() + text.size();
}

bool ParseValue(std::string_view text, double* out) {
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && rest == text.data() + text.size() && std::isfinite(*out);
}

bool ParseValue(std::string_view text, std::string* out) {
  if (text.find('\0') != std::string_view::npos) return false;
  *out = text;
  return true;
}

bool ParseBytes(std::string_view text, int64_t* out) { return ParseScaled(text, kByteUnits, out); }

bool ParseDuration(std::string_view text, std::chrono::milliseconds* out) {
  int64_t ms = 0;
  if (!ParseScaled(text, kTimeUnits, &ms)) return false;
  *out = std::chrono::milliseconds(ms);
  return true;
}

bool ParseFileMode(std::string_view text, unsigned* out) {
  constexpr unsigned kAll = 0777;
  unsigned mode = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || rest != text.data() + text.size() || mode > kAll) return false;
  *out = mode;
  return true;
}

}  // namespace uopd::config
