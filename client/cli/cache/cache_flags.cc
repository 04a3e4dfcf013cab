// SPDX-License-Identifier: MIT
#include "client/cli/cache/cache_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "client/cli/checks.h"

namespace uopd::cli {
namespace {

std::string Format(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::vector<std::string> CacheKinds() {
  return {"choice",     "cost_model", "draft",  "draft_choice", "graph",  "kernel",  "machine",
          "quarantine", "schedule",   "trials", "tune",         "tuning", "unproven"};
}

void AddCacheFilter(CLI::App& command, CacheFilterFlags& flags) {
  command.add_option("--kind", flags.kind, "of this kind")->check(OneOf(CacheKinds()));
  command.add_option("--key", flags.key, "whose key begins with these hexadecimal digits")
      ->check(HexDigits());
  command.add_option("--environment", flags.environment,
                     "whose environment key has this part, such as arch=sm_90");
  command.add_flag("--pinned", flags.pinned, "that are pinned");
  command.add_option("--unused-hours", flags.unused_hours, "not used for this long")
      ->check(NumberIn(1, 1e6));
}

v1::CacheFilter ToWire(const CacheFilterFlags& flags) {
  v1::CacheFilter out;
  out.set_store(flags.kind);
  std::string key = flags.key;
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::tolower(c); });
  out.set_key_prefix(key);
  out.set_environment(flags.environment);
  out.set_pinned_only(flags.pinned);
  out.set_unused_s(flags.unused_hours * 3600);
  return out;
}

std::string BytesText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1024) return std::to_string(bytes) + " B";
  if (bytes < (1 << 20)) return Format(value / 1024, "KiB");
  if (bytes < (1 << 30)) return Format(value / (1 << 20), "MiB");
  return Format(value / (1 << 30), "GiB");
}

std::string TimeText(double seconds) {
  if (seconds > 0 && seconds < 1e-6) return Format(seconds * 1e9, "ns");
  if (seconds < 1e-3) return Format(seconds * 1e6, "us");
  if (seconds < 1) return Format(seconds * 1e3, "ms");
  if (seconds < 120) return Format(seconds, "s");
  if (seconds < 7200) return Format(seconds / 60, "min");
  if (seconds < 172800) return Format(seconds / 3600, "h");
  return Format(seconds / 86400, "days");
}

std::string AgeText(uint64_t unix_us) {
  if (unix_us == 0) return "-";
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return TimeText(
      std::max(0.0, (static_cast<double>(now.count()) - static_cast<double>(unix_us)) * 1e-6));
}

nlohmann::json ToJson(const v1::CacheEntry& entry) {
  nlohmann::json out = {
      {"key", entry.key()},
      {"kind", entry.store()},
      {"size_bytes", entry.bytes()},
      {"cost_seconds", 1e-6 * static_cast<double>(entry.cost_us())},
      {"created_unix_seconds", 1e-6 * static_cast<double>(entry.created_unix_us())},
      {"used_unix_seconds", 1e-6 * static_cast<double>(entry.used_unix_us())},
      {"pinned", entry.pinned()},
      {"hits", entry.hits()},
      {"saved_seconds", 1e-6 * static_cast<double>(entry.saved_us())},
      {"title", entry.title()},
      {"environment", entry.environment()}};
  if (entry.seconds() > 0) out["winner_seconds"] = entry.seconds();
  return out;
}

}  // namespace uopd::cli
