// SPDX-License-Identifier: MIT
#include "core/base/machine/memory_budget.h"

#include <gtest/gtest.h>

#include <string>

namespace uopd {
namespace {

constexpr int64_t kMi = 1 << 20, kGi = 1 << 30;

TEST(MemoryBudget, AMachineWithRoomGivesClientsThreeQuarters) {
  const MemoryBudget budget = MemoryBudget::Of({.limit_bytes = 24 * kGi, .processors = 4});
  EXPECT_EQ(budget.clients_bytes, 18 * kGi);
  EXPECT_EQ(budget.compile_threads, 4);
  EXPECT_EQ(budget.tune_workers, 4);
  EXPECT_EQ(budget.worker_retires_bytes, kGi);
}

TEST(MemoryBudget, PartsStayBelowTheLimit) {
  for (int64_t mib : {512, 768, 1024, 1536, 2048, 4096, 65536, 1 << 20}) {
    for (int processors : {1, 2, 3, 8, 64, 256}) {
      for (bool upgrades : {false, true}) {
        const MemoryBudget budget = MemoryBudget::Of(
            {.limit_bytes = mib * kMi, .processors = processors, .upgrades = upgrades});
        const std::string what = std::to_string(mib) + " MiB, " + std::to_string(processors);
        const int64_t sum = budget.clients_bytes + budget.clients_bytes / 16 +
                            budget.workers_bytes + budget.daemon_bytes;
        EXPECT_LE(sum, mib * kMi) << what;
        EXPECT_GE(budget.clients_bytes, mib * kMi / 8) << what;
        EXPECT_GE(budget.compile_threads, 1) << what;
        EXPECT_LE(budget.compile_threads, processors) << what;
        EXPECT_GE(budget.tune_workers, 1) << what;
      }
    }
  }
}

TEST(MemoryBudget, FewerWorkersWhereMemoryIsShort) {
  const auto threads = [](int64_t bytes) {
    return MemoryBudget::Of({.limit_bytes = bytes, .processors = 64}).compile_threads;
  };
  EXPECT_EQ(threads(256 * kMi), 1);
  EXPECT_EQ(threads(kGi), 2);
  EXPECT_GT(threads(4 * kGi), 4);
  EXPECT_LT(threads(4 * kGi), 16);
  EXPECT_EQ(threads(256 * kGi), 64);
}

TEST(MemoryBudget, ConfiguredWorkersAreTakenAndPaidByClients) {
  const MemoryBudget few =
      MemoryBudget::Of({.limit_bytes = 4 * kGi, .processors = 2, .compile_threads = 1});
  const MemoryBudget many =
      MemoryBudget::Of({.limit_bytes = 4 * kGi, .processors = 2, .compile_threads = 30});
  EXPECT_EQ(few.compile_threads, 1);
  EXPECT_EQ(many.compile_threads, 30);
  EXPECT_GT(few.clients_bytes, many.clients_bytes + kGi);
}

TEST(MemoryBudget, TheSmallestLimitsLeaveClientsAnEighth) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, 64 * kMi, 256 * kMi}) {
    const MemoryBudget budget =
        MemoryBudget::Of({.limit_bytes = bytes, .processors = 8, .compile_threads = 8});
    EXPECT_EQ(budget.clients_bytes, bytes / 8);
    EXPECT_EQ(budget.compile_threads, 8);
  }
  EXPECT_EQ(MemoryBudget::Of({.limit_bytes = -1}).clients_bytes, 0);
}

}  // namespace
}  // namespace uopd
