// SPDX-License-Identifier: MIT
// Tuning of a daemon that shares its results by a server which is there, away, or has just lost its
// keys.
#include <gtest/gtest.h>

#include <map>

#include "cache/cluster/cluster_leases.h"
#include "cache/memory/memory_tier.h"
#include "devices/null/null_device.h"
#include "server/engine/tune/quarantine_store.h"
#include "server/engine/tune/tuning_service.h"
#include "tests/support/eventually.h"
#include "tests/unit/cache/cluster/fake_server.h"
#include "tests/unit/cache/cluster/key_files.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using test::Eventually;

// Finds a time that is the number of the call, when `go` is set.
class SlowTuner final : public KernelTuner {
 public:
  std::string Environment(const devices::Device&, const CompileOptions&) const override {
    return "environment";
  }
  absl::StatusOr<TuningRecord> Tune(std::string_view, const devices::Device&, const CompileOptions&,
                                    const SearchControl& control) override {
    const int call = ++calls;
    while (!go) {
      if (control.work.IsCancelled()) return absl::CancelledError("cancelled");
      std::this_thread::yield();
    }
    return TuningRecord{.seconds = static_cast<double>(call)};
  }
  absl::StatusOr<TuningRecord> Prove(std::string_view, const devices::Device&,
                                     const CompileOptions&, const Opts&,
                                     const WorkLimits&) override {
    return absl::UnimplementedError("nothing is imported here");
  }
  std::atomic<int> calls{0};
  std::atomic<bool> go{true};
};

// Remembers what the kernel waits for.
class WaitNotes final : public TuningObserver {
 public:
  bool cancelled() const override { return false; }
  absl::StatusOr<SearchLimits> Begin(size_t) override {
    ++searches;
    return SearchLimits();
  }
  void Tried(size_t, const search::Trial&) override {}
  void LeftOut(size_t, uint64_t, uint64_t) override {}
  void WaitsFor(size_t, std::string_view what) override {
    MutexLock lock(mu_);
    what_ = what;
  }
  void Ended(size_t, const absl::StatusOr<TuningRecord>&, bool) override {}
  std::string what() {
    MutexLock lock(mu_);
    return what_;
  }
  std::atomic<int> searches{0};

 private:
  Mutex mu_;
  std::string what_ UOPD_GUARDED_BY(mu_);
};

class TuningClusterTest : public cache::KeyFiles {
 protected:
  std::unique_ptr<cache::Store> Open() {
    cache::ClusterOptions options{.sign = hmac_, .trusted = {hmac_}};
    options.breaker = {.failures = 1, .pause_us = 1'000, .max_pause_us = 1'000};
    auto cluster = std::make_unique<cache::Cluster>(std::make_unique<cache::FakeServer>(state_),
                                                    std::move(options));
    auto stats = std::make_unique<cache::StatsTable>();
    std::vector<std::unique_ptr<cache::Tier>> tiers;
    tiers.push_back(
        std::make_unique<cache::MemoryTier>(int64_t{1} << 20, cache::WallClockUs, *stats));
    auto leases = std::make_unique<cache::ClusterLeases>(
        cluster->server(), std::make_unique<cache::MemoryLeases>(cache::WallClockUs),
        cluster->budget());
    return std::make_unique<cache::Store>(std::move(stats), std::move(tiers), std::move(leases),
                                          cache::WallClockUs, std::move(cluster));
  }
  TuningTask Task(std::atomic<double>* used) {
    TuningTask task;
    task.options.beam = 2;
    task.kernels.push_back(
        {.graph = "graph", .device = &(*devices_.Get(""))->device(), .name = "k"});
    task.program = program_;
    task.use = [used](size_t, const TuningRecord& found) {
      *used = found.seconds;
      return absl::OkStatus();
    };
    return task;
  }
  // The answer of the server to `calls` questions has been waited for.
  void AwaitQuestions() {
    const int before = state_->Calls();
    ASSERT_TRUE(Eventually([&] { return state_->Calls() >= before + 2; }));
  }

  const std::shared_ptr<cache::FakeServerState> state_ = std::make_shared<cache::FakeServerState>();
  DeviceSet devices_{NullRegistry()};
  const std::shared_ptr<ProgramHandle> program_ = std::make_shared<ProgramHandle>(nullptr);
  SlowTuner tuner_;
  std::atomic<double> used_{0};
};

TEST_F(TuningClusterTest, NoSearchBeginsWhileTheServerIsAway) {
  state_->SetAway(true);
  const auto store = Open();
  TuningService service({.owner = "a pid 1 boot 1", .gate = {.settle_us = 1'000}}, *store, &tuner_);
  service.Add(Task(&used_));
  AwaitQuestions();
  EXPECT_EQ(tuner_.calls, 0);
  EXPECT_EQ(service.kernels_left(), 1u);
  state_->SetAway(false);
  EXPECT_TRUE(Eventually([&] { return used_ == 1; }));
}

TEST_F(TuningClusterTest, WhatWaitsForTheServerSaysSo) {
  state_->SetAway(true);
  const auto store = Open();
  TuningService service({.owner = "a pid 1 boot 1", .gate = {.settle_us = 1'000}}, *store, &tuner_);
  const auto notes = std::make_shared<WaitNotes>();
  TuningTask task = Task(&used_);
  task.observer = notes;
  service.Add(std::move(task));
  EXPECT_TRUE(Eventually([&] {
    return notes->what() ==
           "the cluster: its server is away (tune.alone_after_ms says how long a search waits)";
  }));
  EXPECT_EQ(notes->searches, 0);
  state_->age_us = 500;  // it has its keys for a shorter time than tune.settle_ms
  state_->SetAway(false);
  EXPECT_TRUE(Eventually([&] {
    return notes->what() ==
           "the cluster: its server has not answered for long enough to begin a search "
           "(tune.settle_ms)";
  }));
  state_->age_us = 3'600'000'000;
  EXPECT_TRUE(Eventually([&] { return used_ == 1; }));
  EXPECT_EQ(notes->searches, 1);
}

TEST_F(TuningClusterTest, WhoIsAloneForLongTunesAlone) {
  state_->SetAway(true);
  const auto store = Open();
  TuningService service({.owner = "a pid 1 boot 1", .gate = {.alone_after_us = 20'000}}, *store,
                        &tuner_);
  service.Add(Task(&used_));
  EXPECT_TRUE(Eventually([&] { return used_ == 1; }));
}

TEST_F(TuningClusterTest, NoSearchBeginsWhenTheServerHasJustLostItsKeys) {
  state_->age_us = 5'000;
  const auto store = Open();
  TuningService service({.owner = "a pid 1 boot 1", .gate = {.settle_us = 10'000}}, *store,
                        &tuner_);
  service.Add(Task(&used_));
  AwaitQuestions();
  EXPECT_EQ(tuner_.calls, 0);
  state_->age_us = 10'000;
  EXPECT_TRUE(Eventually([&] { return used_ == 1; }));
}

// A daemon that is cut off ends its search when its lease has ended, because another one may search
// now.
TEST_F(TuningClusterTest, ASearchEndsWithItsLease) {
  const auto one = Open(), two = Open();
  SlowTuner other;
  std::atomic<double> used_by_other = 0;
  tuner_.go = false;
  TuningService service({.owner = "a pid 1 boot 1", .lease_us = 60'000, .gate = {.settle_us = 0}},
                        *one, &tuner_);
  service.Add(Task(&used_));
  ASSERT_TRUE(Eventually([&] { return tuner_.calls == 1; }));
  state_->SetAway(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(tuner_.calls, 1) << "no search begins";
  tuner_.go = true;  // a search that had not ended would be used now
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(used_, 0);
  {
    TuningService second({.owner = "b pid 1 boot 2", .gate = {.settle_us = 0}}, *two, &other);
    other.go = false;
    second.Add(Task(&used_by_other));
    state_->SetAway(false);
    ASSERT_TRUE(Eventually([&] { return tuner_.calls + other.calls == 2; }));
    other.go = true;
    EXPECT_TRUE(Eventually([&] { return used_ > 0 && used_by_other > 0; }));
  }
  EXPECT_EQ(tuner_.calls + other.calls, 2) << "one of the two searched again";
}

// A result that comes while this daemon searches for it ends the search.
TEST_F(TuningClusterTest, WhatArrivesEndsTheSearch) {
  const auto one = Open(), two = Open();
  tuner_.go = false;
  TuningService service({.owner = "a pid 1 boot 1", .gate = {.settle_us = 0}}, *one, &tuner_);
  service.Add(Task(&used_));
  ASSERT_TRUE(Eventually([&] { return tuner_.calls == 1; }));
  EXPECT_TRUE(Eventually([&] {
    two->Put({"tuning", "graph", "environment"}, TuningRecord{.seconds = 42}.Encode(), 1)
        .IgnoreError();
    return used_ == 42;
  }));
  EXPECT_TRUE(Eventually([&] { return service.kernels_left() == 0; }));
}

// A job that killed a worker of one daemon is refused by all, until an operator of any of them says
// otherwise.
TEST_F(TuningClusterTest, TheQuarantineIsOfTheWholeCluster) {
  const auto one = Open(), two = Open();
  QuarantineStore mine(*one, "tuning"), theirs(*two, "tuning"), other_pool(*two, "measure");
  Mutex mu;
  std::map<Digest, std::string> heard;
  const auto has = [&](const Digest& job, const std::string& reason) {
    return Eventually([&] {
      const MutexLock lock(mu);
      const auto it = heard.find(job);
      return it == heard.end() ? reason.empty() : it->second == reason;
    });
  };
  const auto following = theirs.Follow(
      [&](const worker::QuarantineEntry& entry) {
        const MutexLock lock(mu);
        heard[entry.job] = entry.reason;
      },
      [&](const Digest& job) {
        const MutexLock lock(mu);
        heard.erase(job);
      });
  const worker::QuarantineEntry a{HashBytes("a"), "crashed", 1'700'000'000},
      b{HashBytes("b"), "hung"};
  EXPECT_FALSE(theirs.FindInCluster(a.job));
  mine.Add(a);
  ASSERT_TRUE(one->Flush().ok());
  EXPECT_EQ(theirs.FindInCluster(a.job), a) << "also if its announcement was missed";
  EXPECT_FALSE(other_pool.FindInCluster(a.job));
  EXPECT_TRUE(has(a.job, "crashed"));
  // What is announced before a store begins to listen is found by lookups only.
  ASSERT_TRUE(Eventually([&] {
    one->Put({"other", "x", "environment"}, "x", 1).IgnoreError();
    return two->maybe_cluster()->stats().announced > 0;
  }));
  // Both add at the same time, and none is lost.
  mine.Add(b);
  theirs.Add({HashBytes("c"), "too long"});
  EXPECT_TRUE(has(b.job, "hung"));
  EXPECT_TRUE(Eventually([&] { return theirs.Load().size() == 3; }));
  mine.Remove(a.job);
  EXPECT_TRUE(has(a.job, ""));
  EXPECT_TRUE(Eventually([&] { return theirs.Load().size() == 2; }));
  EXPECT_FALSE(theirs.FindInCluster(a.job));
}

}  // namespace
}  // namespace uopd::engine
