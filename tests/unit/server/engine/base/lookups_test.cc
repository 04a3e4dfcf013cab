// SPDX-License-Identifier: MIT
#include "server/engine/base/lookups.h"

#include <gtest/gtest.h>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

// How often a look into the store "lookups-test" was counted as `result`.
double Counted(const char* result) {
  return static_cast<double>(metrics::CacheRequests({"lookups-test", result}).value());
}

TEST(LookupsTest, EveryOutcomeIsCountedOnceAsWhatItIs) {
  using cache::GetOutcome;
  const struct {
    GetOutcome outcome;
    const char* result;
  } cases[] = {{GetOutcome::kHit, "hit"},
               {GetOutcome::kMiss, "miss"},
               {GetOutcome::kCorrupt, "corrupt"},
               {GetOutcome::kKeyMismatch, "corrupt"},
               {GetOutcome::kUnavailable, "error"}};
  for (const auto& c : cases) {
    for (const char* result : {"hit", "miss", "corrupt", "error"}) {
      const double before = Counted(result);
      CountLookup("lookups-test", c.outcome);
      EXPECT_EQ(Counted(result) - before, std::string(result) == c.result ? 1 : 0) << result;
    }
  }
  const double before = Counted("corrupt");
  CountCorrupt("lookups-test");
  EXPECT_EQ(Counted("corrupt") - before, 1);
}

}  // namespace
}  // namespace uopd::engine
