// SPDX-License-Identifier: MIT
// What the commands of `uopctl cache` share: the flags that choose entries, and how entries are
// shown.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "uopd/v1/uopd.pb.h"

namespace CLI {
class App;
}

namespace uopd::cli {

struct CacheFilterFlags {
  std::string kind, key, environment;
  bool pinned = false;
  uint64_t unused_hours = 0;
  bool empty() const {
    return kind.empty() && key.empty() && environment.empty() && !pinned && unused_hours == 0;
  }
};

// The kinds of entries that a daemon of this version has.
std::vector<std::string> CacheKinds();
// --kind, --key, --environment, --pinned, --unused-hours.
void AddCacheFilter(CLI::App& command, CacheFilterFlags& flags);
v1::CacheFilter ToWire(const CacheFilterFlags& flags);

// "1.5 MiB"; "3 h".
std::string BytesText(uint64_t bytes);
std::string TimeText(double seconds);
// The time since a moment; "-" for 0.
std::string AgeText(uint64_t unix_us);

nlohmann::json ToJson(const v1::CacheEntry& entry);

}  // namespace uopd::cli
