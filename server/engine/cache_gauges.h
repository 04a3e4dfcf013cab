// SPDX-License-Identifier: MIT
// The gauges of what the stores of the cache hold. Used by one thread.
#pragma once
#include <set>
#include <string>

#include "cache/store.h"

namespace uopd::engine {

class CacheGauges {
 public:
  // Reads the cache, which may take long, and sets the gauges afterwards. While it is read, and if
  // it cannot be read, they keep their values. A store that has no rows any more has 0.
  void Publish(cache::Store& store);

 private:
  std::set<std::string> stores_;  // those with gauges
};

}  // namespace uopd::engine
