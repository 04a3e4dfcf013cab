// SPDX-License-Identifier: MIT
// The gauges of the cache say what was read last, also while it is read and when it cannot be read.
#include "server/engine/cache_gauges.h"

#include <gtest/gtest.h>

#include "cache/memory/memory_tier.h"
#include "core/base/telemetry/metrics.h"
#include "tests/support/forwarding_tier.h"

namespace uopd::engine {
namespace {

constexpr char kGaugedStore[] = "gauged";

double GaugedRows() { return metrics::CacheRows({kGaugedStore}).value(); }

// Counts rows in memory as told.
class GaugedTier final : public cache::ForwardingTier {
 public:
  using ForwardingTier::ForwardingTier;
  absl::StatusOr<std::vector<cache::Usage>> ReadUsage() override {
    rows_while_read = GaugedRows();
    return usage;
  }
  absl::StatusOr<std::vector<cache::Usage>> usage;
  double rows_while_read = 0;
};

TEST(CacheGauges, KeepTheirValuesWhileTheCacheIsReadAndIfItFails) {
  cache::StatsTable stats;
  cache::MemoryTier memory(1 << 20, cache::WallClockUs, stats);
  auto owned = std::make_unique<GaugedTier>(memory);
  GaugedTier& tier = *owned;
  const auto store = cache::StoreOf(std::move(owned));
  CacheGauges gauges;
  tier.usage = {{kGaugedStore, 5, 500}};
  gauges.Publish(*store);
  EXPECT_EQ(GaugedRows(), 5);
  EXPECT_EQ(metrics::CacheBytes({kGaugedStore}).value(), 500);

  tier.usage = {{kGaugedStore, 6, 600}};
  gauges.Publish(*store);
  EXPECT_EQ(tier.rows_while_read, 5);
  EXPECT_EQ(GaugedRows(), 6);

  tier.usage = absl::UnavailableError("the disk does not answer");
  gauges.Publish(*store);
  EXPECT_EQ(tier.rows_while_read, 6);
  EXPECT_EQ(GaugedRows(), 6);

  tier.usage = std::vector<cache::Usage>();  // all were removed
  gauges.Publish(*store);
  EXPECT_EQ(GaugedRows(), 0);
  EXPECT_EQ(metrics::CacheBytes({kGaugedStore}).value(), 0);
}

}  // namespace
}  // namespace uopd::engine
