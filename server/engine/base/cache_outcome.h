// SPDX-License-Identifier: MIT
// Where the parts of a program were found, as clients are told.
#pragma once
#include <cstdint>

#include "cache/load_or_compute.h"

namespace uopd::engine {

enum class CacheResult : uint8_t {
  kUnspecified,
  kMemory,   // ready in this process
  kDisk,     // in the cache of this machine
  kCluster,  // with the server that machines share; it is in this machine's cache from now on
  kMiss,     // computed
  kShared,   // another request, here or of another daemon, was getting it already, and this one
             // waited
};

// Where a program was found.
struct CacheOutcome {
  CacheResult schedule = CacheResult::kUnspecified;
  uint32_t kernels_memory = 0, kernels_disk = 0, kernels_cluster = 0, kernels_compiled = 0;
  uint32_t kernels_shared = 0;  // counted in none of the above
  uint32_t kernels_tuned = 0;   // in the program as it is now
  uint32_t kernels_draft = 0;   // the same
};

// Of a value that the store gave or that was computed. The memory of the store is a part of this
// machine's cache: what is ready to use is only known to those who keep it.
constexpr CacheResult ResultOf(cache::LoadOutcome outcome) {
  switch (outcome) {
    case cache::LoadOutcome::kComputed:
      return CacheResult::kMiss;
    case cache::LoadOutcome::kClusterHit:
      return CacheResult::kCluster;
    case cache::LoadOutcome::kWaited:
      return CacheResult::kShared;
    case cache::LoadOutcome::kMemoryHit:
    case cache::LoadOutcome::kDiskHit:
      break;
  }
  return CacheResult::kDisk;
}

}  // namespace uopd::engine
