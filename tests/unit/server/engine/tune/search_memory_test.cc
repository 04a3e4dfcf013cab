// SPDX-License-Identifier: MIT
#include "server/engine/tune/search_memory.h"

#include "core/base/text.h"
#include "devices/null/null_device.h"
#include "gtest/gtest.h"
#include "server/worker/job/measure_job.h"

namespace uopd::engine {
namespace {

TEST(SearchMemory, KeepsBooksByKernelAndDevice) {
  cache::Store store(1 << 20);
  const SearchMemory memory(store);
  const Target target = devices::null::NullTarget();
  Target other = target;
  other.vector_registers = 99;
  EXPECT_EQ(memory.Book("graph", target).size(), 0);
  search::TrialBook book;
  book.Add(HashBytes("program"), 1e-6);
  memory.Keep("graph", target, book);
  EXPECT_EQ(memory.Book("graph", target).Find(HashBytes("program")), 1e-6);
  EXPECT_EQ(memory.Book("another", target).size(), 0);
  EXPECT_EQ(memory.Book("graph", other).size(), 0);
  // A longer book replaces it.
  book.Add(HashBytes("second"), 2e-6);
  memory.Keep("graph", target, book);
  EXPECT_EQ(memory.Book("graph", target).size(), 2);
}

TEST(SearchMemory, KeepsTheModelOfADevice) {
  cache::Store store(1 << 20);
  const SearchMemory memory(store);
  const Target target = devices::null::NullTarget();
  search::CostModel model = memory.Model(target);
  EXPECT_EQ(model.observations(), 0);
  search::Features start{}, slow{};
  slow[3] = 2;
  model.Observe(start, slow, 1);
  memory.Keep(target, model);
  EXPECT_EQ(memory.Model(target).observations(), 1);
  EXPECT_EQ(memory.Model(target).Predict(slow), model.Predict(slow));
}

TEST(SearchMemory, DamagedRowsAreNothing) {
  cache::Store store(1 << 20);
  const SearchMemory memory(store);
  const Target target = devices::null::NullTarget();
  const std::string environment = Cat("measure=", worker::kMeasurePolicyVersion, " ", target.Key());
  ASSERT_TRUE(store.Put({SearchMemory::kBooks, "graph", environment}, "nonsense", 1).ok());
  ASSERT_TRUE(
      store
          .Put({SearchMemory::kModels, Cat("features=", search::kFeaturesVersion), environment},
               "nonsense", 1)
          .ok());
  EXPECT_EQ(memory.Book("graph", target).size(), 0);
  EXPECT_EQ(memory.Model(target).observations(), 0);
}

}  // namespace
}  // namespace uopd::engine
