// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/telemetry/metrics.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ::testing::HasSubstr;

class KernelLoaderTest : public ::testing::Test {
 protected:
  KernelLoaderTest() {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(4, 2), ir::Level::kTensor);
    graph_ = schedule::MakeSchedule(ctx, *sink, {})->items.at(0).graph;
  }
  absl::StatusOr<LoadedKernel> Get(KernelLoader& loader, std::string_view device,
                                   const std::vector<codegen::Opt>* opts = nullptr,
                                   Tier tier = Tier::kOptimised) {
    PhaseTimings timings;
    return loader.Get({}, {graph_, *devices_.Get(device), options_, opts, capacities_, tier},
                      &timings);
  }

  // Puts another value in the place of the only kernel in the store.
  void SpoilKernel() {
    const auto entries = store_.List("kernel", 10);
    ASSERT_EQ(entries.size(), 1u);
    const auto key = store_.KeyOf(entries[0].address);
    ASSERT_TRUE(store_.Clear("kernel").ok());
    ASSERT_TRUE(store_.Put(*key, "noise", 1).ok());
  }

  std::string graph_;
  CompileOptions options_;
  std::vector<int64_t> capacities_ = {16, 16};
  FakeCompiler graph_compiler_;
  KernelCompiler compiler_{nullptr, std::chrono::seconds(10)};
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  KernelLoader loader_{graph_compiler_, compiler_, store_, {.owner = "test"}};
};

TEST_F(KernelLoaderTest, MemoryThenStoreThenWork) {
  const auto made = Get(loader_, "");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->from, CacheResult::kMiss);
  const auto known = Get(loader_, "");
  EXPECT_EQ(known->from, CacheResult::kMemory);
  EXPECT_EQ(known->kernel, made->kernel);
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  EXPECT_EQ(Get(restarted, "")->from, CacheResult::kDisk);
  EXPECT_EQ(graph_compiler_.builds, 1);
}

TEST_F(KernelLoaderTest, EqualDevicesShareTheBytesAndNotTheKernel) {
  const auto here = Get(loader_, "NULL:0"), there = Get(loader_, "NULL:1");
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_EQ(there->from, CacheResult::kDisk);
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(here->kernel->device->name(), "NULL:0");
  EXPECT_EQ(there->kernel->device->name(), "NULL:1");
}

TEST_F(KernelLoaderTest, AFailureIsRememberedForAWhile) {
  int64_t now_us = 1'000'000;
  RecentFailures failures({.compiler = std::chrono::seconds(30)}, [&] { return now_us; });
  KernelLoader loader(graph_compiler_, compiler_, store_, {.owner = "test"}, nullptr, &failures);
  absl::Status answer = absl::InternalError("no such instruction");
  graph_compiler_.on_build = [&] { return answer; };
  EXPECT_THAT(StatusText(Get(loader, "").status()), HasSubstr("no such instruction"));
  EXPECT_EQ(graph_compiler_.builds, 1);
  // The same failure, without the work.
  const absl::Status again = Get(loader, "").status();
  EXPECT_TRUE(absl::IsInternal(again));
  EXPECT_THAT(StatusText(again), HasSubstr("no such instruction"));
  EXPECT_EQ(graph_compiler_.builds, 1);
  // Who does not use the cache finds out.
  options_.cache_level = 0;
  EXPECT_FALSE(Get(loader, "").ok());
  EXPECT_EQ(graph_compiler_.builds, 2);
  options_.cache_level = 2;
  // Other reasons are not remembered; this one has a life of 0 here.
  now_us += 31'000'000;
  for (const absl::Status& passing :
       {absl::UnavailableError("no workers"), absl::UnimplementedError("no")}) {
    answer = passing;
    EXPECT_FALSE(Get(loader, "").ok());
  }
  EXPECT_EQ(graph_compiler_.builds, 4);
  answer = absl::OkStatus();
  EXPECT_TRUE(Get(loader, "").ok());
}

TEST_F(KernelLoaderTest, OptsAndOptionsMakeOtherKernels) {
  ASSERT_TRUE(Get(loader_, "").ok());
  const std::vector<codegen::Opt> opts = {{codegen::OptKind::kUpcast, 0, 2}};
  EXPECT_EQ(Get(loader_, "", &opts)->from, CacheResult::kMiss);
  EXPECT_TRUE(Get(loader_, "", &opts)->kernel->tuned);
  options_.fast_math = true;
  EXPECT_EQ(Get(loader_, "")->from, CacheResult::kMiss);
  EXPECT_TRUE(absl::IsInvalidArgument(Get(loader_, "", &FakeCompiler::kUselessOpts).status()));
}

TEST_F(KernelLoaderTest, AKernelNobodyHasIsLoadedAgain) {
  ASSERT_TRUE(Get(loader_, "").ok());  // and dropped
  EXPECT_EQ(Get(loader_, "")->from, CacheResult::kDisk);
}

// A record for larger buffers than the schedule has would be read and written outside of them.
TEST_F(KernelLoaderTest, AKernelThatDoesNotFitIsNotLoaded) {
  capacities_ = {16, 12};
  const auto got = Get(loader_, "");
  EXPECT_TRUE(absl::IsInternal(got.status()));
  EXPECT_THAT(StatusText(got.status()), HasSubstr("does not fit"));
}

TEST_F(KernelLoaderTest, AValueThatIsNoRecordIsMadeAgainAndReplaced) {
  ASSERT_TRUE(Get(loader_, "").ok());
  SpoilKernel();
  const auto healed = Get(loader_, "");
  ASSERT_TRUE(healed.ok()) << healed.status();
  EXPECT_EQ(healed->from, CacheResult::kMiss);
  EXPECT_EQ(graph_compiler_.builds, 2);
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  EXPECT_EQ(Get(restarted, "")->from, CacheResult::kDisk);
}

// As if a machine with another number of threads had made the kernel.
TEST_F(KernelLoaderTest, AKernelIsFoundBySourceIfItsChoiceIsNotKnown) {
  ASSERT_TRUE(Get(loader_, "").ok());
  ASSERT_TRUE(store_.Clear("choice").ok());
  int compiled = 0;
  graph_compiler_.on_build = [&] { return ++compiled, absl::OkStatus(); };
  const uint64_t before = metrics::KernelsCompiled().value();
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  EXPECT_EQ(Get(restarted, "")->from, CacheResult::kDisk);
  EXPECT_EQ(compiled, 1) << "the source was made again";
  EXPECT_EQ(metrics::KernelsCompiled().value(), before) << "and not compiled";
  // Now the choice is known again.
  KernelLoader last(graph_compiler_, compiler_, store_, {.owner = "test"});
  EXPECT_EQ(Get(last, "")->from, CacheResult::kDisk);
  EXPECT_EQ(compiled, 1);
}

TEST_F(KernelLoaderTest, AChoiceThatLeadsNowhereIsMadeAgain) {
  ASSERT_TRUE(Get(loader_, "").ok());
  const auto choice = store_.KeyOf(store_.List("choice", 10).at(0).address);
  for (const std::string& value :
       {EncodeChoice(HashBytes("another source")), std::string("noise")}) {
    ASSERT_TRUE(store_.Clear("choice").ok());
    ASSERT_TRUE(store_.Put(*choice, value, 1).ok());
    KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
    EXPECT_EQ(Get(restarted, "")->from, CacheResult::kDisk);
    EXPECT_NE(store_.Get(*choice).entry.bytes, value);
  }
}

// A tuned kernel whose opts are those that the heuristic had chosen is the same one.
TEST_F(KernelLoaderTest, OtherOptsWithTheSameSourceAreTheSameKernel) {
  ASSERT_TRUE(Get(loader_, "").ok());
  const std::vector<codegen::Opt> none;
  EXPECT_EQ(Get(loader_, "", &none)->from, CacheResult::kDisk);
  EXPECT_EQ(store_.List("kernel", 10).size(), 1u);
  EXPECT_EQ(store_.List("choice", 10).size(), 2u);
}

TEST_F(KernelLoaderTest, ADraftUntilTheOptimisedKernelExists) {
  const auto draft = Get(loader_, "", nullptr, Tier::kDraft);
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_TRUE(draft->kernel->draft);
  EXPECT_EQ(draft->from, CacheResult::kMiss);
  EXPECT_EQ(Get(loader_, "", nullptr, Tier::kDraft)->kernel, draft->kernel);
  // A daemon that starts before the upgrade is done.
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  const auto stored = Get(restarted, "", nullptr, Tier::kDraft);
  EXPECT_TRUE(stored->kernel->draft);
  EXPECT_EQ(stored->from, CacheResult::kDisk);
  EXPECT_EQ(graph_compiler_.builds, 1);

  const auto optimised = Get(loader_, "", nullptr, Tier::kUpgrade);
  ASSERT_TRUE(optimised.ok()) << optimised.status();
  EXPECT_FALSE(optimised->kernel->draft);
  EXPECT_EQ(optimised->from, CacheResult::kMiss);
  EXPECT_EQ(Get(loader_, "", nullptr, Tier::kDraft)->kernel, optimised->kernel);
  KernelLoader last(graph_compiler_, compiler_, store_, {.owner = "test"});
  const auto found = Get(last, "", nullptr, Tier::kDraft);
  EXPECT_FALSE(found->kernel->draft);
  EXPECT_EQ(found->from, CacheResult::kDisk);
  EXPECT_EQ(graph_compiler_.builds, 2);
}

TEST_F(KernelLoaderTest, AKernelThatHasNoDraftIsOptimisedAtOnce) {
  std::atomic<int> calls{0};
  graph_compiler_.on_build = [&] {
    return calls++ == 0 ? absl::InternalError("no draft") : absl::OkStatus();
  };
  const auto got = Get(loader_, "", nullptr, Tier::kDraft);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FALSE(got->kernel->draft);
}

TEST_F(KernelLoaderTest, ADamagedOptimisedKernelIsReplacedByTheUpgrade) {
  ASSERT_TRUE(Get(loader_, "").ok());
  SpoilKernel();
  const auto draft = Get(loader_, "", nullptr, Tier::kDraft);
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_TRUE(draft->kernel->draft);
  ASSERT_TRUE(Get(loader_, "", nullptr, Tier::kUpgrade).ok());
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  EXPECT_FALSE(Get(restarted, "", nullptr, Tier::kDraft)->kernel->draft);
}

}  // namespace
}  // namespace uopd::engine
