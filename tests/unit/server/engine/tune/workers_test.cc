// SPDX-License-Identifier: MIT
// The quarantines of the pools; tests/e2e/workers_test.cc has their processes.
#include "server/engine/tune/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A digest that starts with the given byte.
Digest Job(uint8_t first, uint8_t second = 0) {
  Digest out = HashBytes("job");
  out.bytes[0] = first;
  out.bytes[1] = second;
  return out;
}

class WorkersTest : public testing::Test {
 protected:
  static std::unique_ptr<worker::ForkServer> NoForks() {
    worker::ForkServer::Options options;
    options.program = "/does/not/exist";
    return *worker::ForkServer::Start(options);
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> out;
    for (const auto& q : workers_->ListQuarantine()) {
      out.push_back(Cat(q.pool, " ", q.entry.job.Hex().substr(0, 4)));
    }
    return out;
  }
  void Restart() { workers_ = std::make_unique<Workers>(*forks_, config_, devices_, 3, store_); }

  const std::unique_ptr<worker::ForkServer> forks_ = NoForks();
  Config config_;
  cache::Store store_{1 << 20};
  std::vector<std::string> devices_ = {"CPU:0"};
  std::unique_ptr<Workers> workers_ =
      std::make_unique<Workers>(*forks_, config_, devices_, 3, store_);
};

TEST_F(WorkersTest, PoolsAreAsLargeAsTheSettingsSay) {
  EXPECT_EQ(workers_->compile().max_workers(), 3);
  EXPECT_EQ(workers_->tuning("CPU:0").measure.max_workers(), 1)
      << "two would disturb each other's times";
  ASSERT_TRUE(config_.Set("tune.workers", "5", ConfigSource::kFlag).ok());
  Restart();
  EXPECT_EQ(workers_->tuning("CPU:0").compile.max_workers(), 5);
}

TEST_F(WorkersTest, EveryDeviceHasAMeasuringPoolOfItsOwn) {
  devices_ = {"CPU:0", "CPU:1", "NULL:0"};
  QuarantineStore(store_, "measure").Add({Job(0xaa), "crashed"});
  Restart();
  std::set<worker::Supervisor*> pools, compiling;
  for (const std::string& device : devices_) {
    const worker::WorkerPools of_device = workers_->tuning(device);
    pools.insert(&of_device.measure);
    compiling.insert(&of_device.compile);
    EXPECT_EQ(of_device.measure.setup().devices, device);
    EXPECT_EQ(of_device.measure.max_workers(), 1);
    EXPECT_EQ(of_device.measure.quarantine().entries().size(), 1u) << device;
  }
  EXPECT_EQ(pools.size(), 3u);
  EXPECT_EQ(compiling.size(), 1u);
  EXPECT_THAT(Listed(), ElementsAre("measure aa00")) << "one job is listed once";
  EXPECT_EQ(*workers_->ClearQuarantine("aa"), 1u);
  EXPECT_THAT(Listed(), IsEmpty());
}

// Requests come first: what they wait for is nicer than they are, and tuning than both.
TEST_F(WorkersTest, TuningIsNicerThanCompiles) {
  EXPECT_GT(workers_->compile().setup().nice, 0);
  EXPECT_GT(workers_->tuning("CPU:0").compile.setup().nice, workers_->compile().setup().nice);
  EXPECT_EQ(workers_->tuning("CPU:0").measure.setup().nice,
            workers_->tuning("CPU:0").compile.setup().nice);
}

TEST_F(WorkersTest, TheQuarantineIsListedByPool) {
  EXPECT_THAT(Listed(), IsEmpty());
  workers_->tuning("CPU:0").measure.quarantine().Add({Job(0xcc)});
  workers_->compile().quarantine().Add({Job(0xbb)});
  workers_->compile().quarantine().Add({Job(0xaa)});
  EXPECT_THAT(Listed(), ElementsAre("compile bb00", "compile aa00", "measure cc00"));
}

TEST_F(WorkersTest, TheQuarantinesOfTuningOutliveTheDaemonAndThatOfCompilesDoesNot) {
  QuarantineStore(store_, "compile").Add({Job(0xaa), "crashed"});
  QuarantineStore(store_, "tuning").Add({Job(0xbb), "crashed"});
  QuarantineStore(store_, "measure").Add({Job(0xcc), "crashed"});
  Restart();
  EXPECT_THAT(Listed(), ElementsAre("tuning bb00", "measure cc00"));
}

TEST_F(WorkersTest, AJobIsClearedByTheFirstDigitsOfItsId) {
  workers_->compile().quarantine().Add({Job(0xaa, 0x11)});
  workers_->compile().quarantine().Add({Job(0xab, 0x22)});
  EXPECT_EQ(*workers_->ClearQuarantine("aa1"), 1u);
  EXPECT_THAT(Listed(), ElementsAre("compile ab22"));
  EXPECT_EQ(*workers_->ClearQuarantine(Job(0xab, 0x22).Hex()), 1u);
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(WorkersTest, WhatIsClearedStaysSoOverARestart) {
  QuarantineStore(store_, "tuning").Add({Job(0xbb), "crashed"});
  QuarantineStore(store_, "tuning").Add({Job(0xcc), "crashed"});
  Restart();
  EXPECT_EQ(*workers_->ClearQuarantine("bb"), 1u);
  Restart();
  EXPECT_THAT(Listed(), ElementsAre("tuning cc00"));
}

TEST_F(WorkersTest, NoIdClearsAllAndThatMayBeNone) {
  EXPECT_EQ(*workers_->ClearQuarantine(""), 0u);
  workers_->compile().quarantine().Add({Job(0xaa)});
  workers_->tuning("CPU:0").compile.quarantine().Add({Job(0xbb)});
  EXPECT_EQ(*workers_->ClearQuarantine(""), 2u);
  EXPECT_THAT(workers_->ListQuarantine(), SizeIs(0));
}

TEST_F(WorkersTest, OneJobInTwoPoolsIsOneJob) {
  workers_->compile().quarantine().Add({Job(0xaa)});
  workers_->tuning("CPU:0").compile.quarantine().Add({Job(0xaa)});
  EXPECT_EQ(*workers_->ClearQuarantine("aa"), 2u);
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(WorkersTest, IdsThatNameNoJobOrSeveral) {
  workers_->compile().quarantine().Add({Job(0xaa, 0x11)});
  workers_->tuning("CPU:0").compile.quarantine().Add({Job(0xaa, 0x22)});
  const absl::Status several = workers_->ClearQuarantine("aa").status();
  EXPECT_TRUE(absl::IsInvalidArgument(several));
  EXPECT_THAT(StatusText(several), HasSubstr("several jobs"));
  EXPECT_TRUE(absl::IsNotFound(workers_->ClearQuarantine("bb").status()));
  EXPECT_THAT(Listed(), SizeIs(2)) << "an error clears nothing";
}

TEST_F(WorkersTest, WhatCannotBeAnIdIsInvalid) {
  for (const std::string& id :
       {std::string("AA"), std::string("0x1"), std::string("a b"), std::string(65, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(workers_->ClearQuarantine(id).status())) << id;
  }
}

}  // namespace
}  // namespace uopd::engine
