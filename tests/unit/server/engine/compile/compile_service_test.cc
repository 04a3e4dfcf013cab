// SPDX-License-Identifier: MIT
#include "server/engine/compile/compile_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <sstream>
#include <thread>

#include "cache/memory/memory_tier.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "tests/support/eventually.h"
#include "tests/support/forwarding_tier.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CompileServiceTest : public testing::Test {
 protected:
  CompileServiceTest() { fs::remove_all(folder_); }
  ~CompileServiceTest() override { fs::remove_all(folder_); }
  // What a daemon has after a restart: the store stays, everything else is new.
  std::unique_ptr<CompileService> Restarted(bool fast_tier = false) {
    return std::make_unique<CompileService>(
        CompileService::Options{.lease = {.owner = "test"},
                                .repro_folder = folder_.string(),
                                .device_list = "NULL,NULL:1",
                                .limits = {},
                                .fast_tier = fast_tier},
        graph_compiler_, store_, devices_, task_pool_);
  }
  absl::Status Prepare(CompileService& service, std::string_view digest, std::string_view bytes) {
    request_ = {};
    return WaitForProgram(service, request_, {digest, bytes}, {}).status();
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string graph_ = ScaleGraph(4, 2);
  const std::string digest_{HashBytes(graph_).view()};
  FakeCompiler graph_compiler_;
  cache::StatsTable stats_;
  cache::MemoryTier tier_{1 << 20, cache::WallClockUs, stats_};
  const std::unique_ptr<cache::Store> owned_store_ =
      cache::StoreOf(std::make_unique<cache::ForwardingTier>(tier_));
  cache::Store& store_ = *owned_store_;
  DeviceSet devices_{NullRegistry()};
  TaskPool task_pool_{2, SIZE_MAX};
  std::unique_ptr<CompileService> service_ = Restarted();
  RequestContext request_;
};

TEST_F(CompileServiceTest, MemoryThenDiskThenWork) {
  EXPECT_EQ(MissingKind(Prepare(*service_, digest_, "")), kProgram);
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  EXPECT_EQ(request_.cache.schedule, CacheResult::kMiss);
  EXPECT_EQ(request_.cache.kernels_compiled, 1u);
  ASSERT_TRUE(Prepare(*service_, digest_, "").ok());
  EXPECT_EQ(request_.cache.schedule, CacheResult::kMemory);
  service_ = Restarted();
  ASSERT_TRUE(Prepare(*service_, digest_, "").ok());
  EXPECT_EQ(request_.cache.schedule, CacheResult::kDisk);
  EXPECT_EQ(request_.cache.kernels_disk, 1u);
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(graph_compiler_.schedules, 1);
}

TEST_F(CompileServiceTest, OptionsMakeOtherPrograms) {
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  RequestContext request;
  ASSERT_TRUE(WaitForProgram(*service_, request, {digest_, ""}, {.noopt = true}).ok());
  EXPECT_EQ(graph_compiler_.builds, 2);
  EXPECT_EQ(FindProgram(*service_, {digest_, ""}, {.fast_math = true}), nullptr);
}

// What a call resolved when it came finds what others prepared while it waited.
TEST_F(CompileServiceTest, AResolvedRequestFindsWhatIsPreparedLater) {
  const Digest another = HashBytes("another");  // a GraphRef only refers to it
  ResolvedRequest by_bytes{.graph = {"", graph_}}, by_digest{.graph = {digest_, ""}},
      wrong{.graph = {another.view(), graph_}}, no_digest{.graph = {"short", ""}};
  for (ResolvedRequest* one : {&by_bytes, &by_digest, &wrong, &no_digest}) {
    service_->Find(*one);
    EXPECT_EQ(one->program, nullptr);
  }
  EXPECT_EQ(by_bytes.digest->view(), digest_);
  EXPECT_EQ(by_digest.digest->view(), digest_);
  EXPECT_FALSE(no_digest.digest.has_value());
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  for (ResolvedRequest* one : {&by_bytes, &by_digest, &wrong, &no_digest}) service_->Find(*one);
  EXPECT_NE(by_bytes.program, nullptr);
  EXPECT_EQ(by_digest.program, by_bytes.program);
  EXPECT_EQ(wrong.program, nullptr);
  EXPECT_EQ(no_digest.program, nullptr);
}

// Eight equal GPUs compile a kernel once.
TEST_F(CompileServiceTest, EqualDevicesShareACompileAndHaveTheirOwnKernels) {
  const std::string there = ScaleGraph(4, 2, "NULL:1");
  RequestContext first, second;
  const auto a = WaitForProgram(*service_, first, {"", graph_}, {});
  const auto b = WaitForProgram(*service_, second, {"", there}, {});
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(second.cache.kernels_disk, 1u);
  ASSERT_EQ((*a)->Get()->devices.size(), 1u);
  ASSERT_EQ((*b)->Get()->devices.size(), 1u);
  EXPECT_EQ((*a)->Get()->devices[0]->name(), "NULL:0");
  EXPECT_EQ((*b)->Get()->devices[0]->name(), "NULL:1");
}

TEST_F(CompileServiceTest, ManyCallersOneCompile) {
  constexpr int kCallers = 8;
  std::latch all(kCallers);
  std::atomic<int> shared{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      RequestContext request;
      all.arrive_and_wait();
      EXPECT_TRUE(WaitForProgram(*service_, request, {"", graph_}, {}).ok());
      if (request.cache.schedule != CacheResult::kMiss) ++shared;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(shared, kCallers - 1);
}

// The first caller's work goes on for the others; it gets its own answer at once.
TEST_F(CompileServiceTest, ACompileEndsOnlyWhenItsLastCallerHasLeft) {
  std::latch building(1), go_on(1);
  std::atomic<bool> first_left{false};
  graph_compiler_.on_build = [&]() -> absl::Status {
    building.count_down();
    go_on.wait();
    return absl::OkStatus();
  };
  std::thread first([&] {
    RequestContext request;
    request.cancelled = [&] { return first_left.load(); };
    EXPECT_TRUE(absl::IsCancelled(WaitForProgram(*service_, request, {"", graph_}, {}).status()));
  });
  building.wait();
  RequestContext second_request;
  std::latch second_done(1);
  absl::Status second;
  service_->Begin(second_request, {.graph = {"", graph_}}, [&](auto made) {
    second = made.status();
    second_done.count_down();
  });
  while (service_->waiting({"", graph_}, {}) < 2) std::this_thread::yield();
  first_left = true;
  first.join();  // while the build still waits
  go_on.count_down();
  second_done.wait();
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_EQ(second_request.cache.schedule, CacheResult::kShared);
  EXPECT_EQ(graph_compiler_.builds, 1);
}

TEST_F(CompileServiceTest, ACompileThatNobodyWaitsForEnds) {
  std::latch building(1), noticed(1);
  std::atomic<bool> left{false}, endless{true};
  graph_compiler_.on_interrupt = [&](Interrupt& interrupt) -> absl::Status {
    if (!endless) return absl::OkStatus();
    building.count_down();
    while (!interrupt.raised()) interrupt.Poll(1000);  // a compile that never ends
    endless = false;
    noticed.count_down();
    return interrupt.status();
  };
  std::thread caller([&] {
    RequestContext request;
    request.cancelled = [&] { return left.load(); };
    EXPECT_TRUE(absl::IsCancelled(WaitForProgram(*service_, request, {"", graph_}, {}).status()));
  });
  building.wait();
  left = true;
  caller.join();
  noticed.wait();
  // Nothing half-done was kept, and the next one is not disturbed, also if it comes before the
  // thread of the first has gone.
  EXPECT_TRUE(Prepare(*service_, "", graph_).ok());
}

TEST_F(CompileServiceTest, AWaiterThatIsLateLeavesWhileTheWorkGoesOn) {
  std::latch building(1), go_on(1);
  graph_compiler_.on_build = [&]() -> absl::Status {
    building.count_down();
    go_on.wait();
    return absl::OkStatus();
  };
  RequestContext first, late;
  std::latch first_done(1), late_done(1);
  absl::Status of_first, of_late;
  service_->Begin(first, {.graph = {"", graph_}}, [&](auto made) {
    of_first = made.status();
    first_done.count_down();
  });
  building.wait();
  late.deadline = RequestContext::Clock::now() + std::chrono::milliseconds(20);
  service_->Begin(late, {.graph = {"", graph_}}, [&](auto made) {
    of_late = made.status();
    late_done.count_down();
  });
  late_done.wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(of_late)) << of_late;
  go_on.count_down();
  first_done.wait();
  EXPECT_TRUE(of_first.ok()) << of_first;
}

// However many wait, they hold no thread: another graph is made meanwhile.
TEST_F(CompileServiceTest, ThoseWhoWaitHoldNoThread) {
  std::latch building(1), go_on(1);
  std::atomic<int> calls{0};
  graph_compiler_.on_build = [&]() -> absl::Status {
    if (calls.fetch_add(1) > 0) return absl::OkStatus();
    building.count_down();
    go_on.wait();
    return absl::OkStatus();
  };
  constexpr int kCallers = 100;
  std::vector<RequestContext> requests(kCallers);
  std::latch all_done(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    requests[static_cast<size_t>(i)].caller = {"somebody", Cat("session ", i)};
    service_->Begin(requests[static_cast<size_t>(i)], {.graph = {"", graph_}}, [&](auto made) {
      EXPECT_TRUE(made.ok());
      all_done.count_down();
    });
  }
  building.wait();
  while (service_->waiting({"", graph_}, {}) < kCallers) std::this_thread::yield();
  const std::string other = ScaleGraph(8, 3);
  EXPECT_TRUE(Prepare(*service_, "", other).ok());
  go_on.count_down();
  all_done.wait();
  EXPECT_EQ(graph_compiler_.builds, 2);
}

TEST_F(CompileServiceTest, CancellingWhileQueuedAnswersAtOnce) {
  RequestContext request;
  request.cancellation = std::make_shared<Cancellation>();
  request.cancellation->Cancel();
  absl::Status got;
  service_->Begin(request, {.graph = {"", graph_}}, [&](auto made) { got = made.status(); });
  EXPECT_TRUE(absl::IsCancelled(got)) << got;
}

// Somebody comes when the work has given up already: it is done again.
TEST_F(CompileServiceTest, ACancelledCompileDoesNotFailTheOthers) {
  std::latch building(1), gave_up(1), come(1);
  std::atomic<bool> left{false};
  std::atomic<int> calls{0};
  graph_compiler_.on_interrupt = [&](Interrupt& interrupt) {
    if (calls.fetch_add(1) > 0) return absl::OkStatus();
    building.count_down();
    while (!interrupt.raised()) interrupt.Poll(1000);
    gave_up.count_down();
    come.wait();
    return interrupt.status();
  };
  std::thread first([&] {
    RequestContext request;
    request.cancelled = [&] { return left.load(); };
    EXPECT_TRUE(absl::IsCancelled(WaitForProgram(*service_, request, {"", graph_}, {}).status()));
  });
  building.wait();
  left = true;
  first.join();
  gave_up.wait();
  RequestContext second;
  std::latch done(1);
  absl::Status got;
  service_->Begin(second, {.graph = {"", graph_}}, [&](auto made) {
    got = made.status();
    done.count_down();
  });
  while (service_->waiting({"", graph_}, {}) < 1) std::this_thread::yield();
  come.count_down();
  done.wait();
  EXPECT_TRUE(got.ok()) << got;
  EXPECT_EQ(graph_compiler_.builds, 2);
}

TEST_F(CompileServiceTest, WhatADeviceCannotDoNamesTheDevice) {
  graph_compiler_.on_build = [] { return absl::UnimplementedError("no code for SIN of f8e4m3"); };
  const absl::Status status = WaitForProgram(*service_, request_, {"", graph_}, {}).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(StatusText(status), "no code for SIN of f8e4m3 (while compiling for NULL:0)");
}

TEST_F(CompileServiceTest, NothingIsBuiltForACallerThatIsGone) {
  request_.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(WaitForProgram(*service_, request_, {"", graph_}, {}).status()));
  RequestContext late;
  late.deadline = RequestContext::Clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(WaitForProgram(*service_, late, {"", graph_}, {}).status()));
  EXPECT_EQ(graph_compiler_.builds, 0);
}

// Spoils the values of a store until one of them is put.
class SpoiledTier final : public cache::ForwardingTier {
 public:
  SpoiledTier(cache::Tier& inner, std::string store, bool* replaced)
      : ForwardingTier(inner), spoiled_(std::move(store)), replaced_(replaced) {}
  cache::GetResult Get(const cache::Key& key) override {
    cache::GetResult out = ForwardingTier::Get(key);
    if (out.hit() && key.store() == spoiled_ && !*replaced_) out.entry.bytes = "spoiled";
    return out;
  }
  absl::Status Put(const Digest& address, std::shared_ptr<const cache::Row> row,
                   cache::Settled settled) override {
    *replaced_ = *replaced_ || row->store == spoiled_;
    return ForwardingTier::Put(address, std::move(row), std::move(settled));
  }

 private:
  const std::string spoiled_;
  bool* const replaced_;
};

TEST_F(CompileServiceTest, UnusableValuesAreMadeAgainAndReplaced) {
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  for (const char* name : {"kernel", "schedule"}) {
    SCOPED_TRACE(name);
    bool replaced = false;
    const auto spoiled = cache::StoreOf(std::make_unique<SpoiledTier>(tier_, name, &replaced));
    CompileService service({.lease = {.owner = "test"}}, graph_compiler_, *spoiled, devices_,
                           task_pool_);
    EXPECT_TRUE(Prepare(service, digest_, "").ok());
    EXPECT_TRUE(replaced);
    service_ = Restarted();  // over the healed store
    ASSERT_TRUE(Prepare(*service_, digest_, "").ok());
    EXPECT_EQ(request_.cache.schedule, CacheResult::kDisk);
    EXPECT_EQ(request_.cache.kernels_disk, 1u);
  }
}

TEST_F(CompileServiceTest, AStoredGraphThatIsNotItsDigestsIsUnknown) {
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  bool replaced = false;
  const auto spoiled = cache::StoreOf(std::make_unique<SpoiledTier>(tier_, "graph", &replaced));
  CompileService service({.lease = {.owner = "test"}}, graph_compiler_, *spoiled, devices_,
                         task_pool_);
  EXPECT_EQ(MissingKind(Prepare(service, digest_, "")), kProgram);
}

TEST_F(CompileServiceTest, OurBugsLeaveAReproducer) {
  graph_compiler_.on_build = [] { return absl::InternalError("renderer is\nconfused"); };
  const absl::Status status = Prepare(*service_, "", graph_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr(folder_.string()));
  ASSERT_FALSE(fs::is_empty(folder_));
  std::ifstream in(fs::directory_iterator(folder_)->path());
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("; renderer is\n; confused"));
  EXPECT_THAT(text.str(), HasSubstr("SINK"));
  const auto head = ReadReproducerHead(text.view());
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->devices, "NULL,NULL:1");
  // The same failure writes the same files again, and many stay within the bound.
  for (int i = 0; i < 100; ++i) (void)Prepare(*service_, "", ScaleGraph(4, i));
  const fs::directory_iterator files(folder_);
  EXPECT_EQ(static_cast<size_t>(std::distance(begin(files), end(files))),
            ReproducerFolder::Limits().files);
}

TEST_F(CompileServiceTest, ErrorsOfTheGraphLeaveNoReproducer) {
  graph_compiler_.on_build = [] { return absl::UnimplementedError("not yet"); };
  EXPECT_EQ(Prepare(*service_, "", graph_).code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(Prepare(*service_, "", "noise").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Prepare(*service_, HashBytes("x").view(), graph_).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CompileServiceTest, DraftsFirstAndOptimisedKernelsBehindThem) {
  service_ = Restarted(true);
  std::latch go_on(1);
  graph_compiler_.on_build = [&] {
    if (graph_compiler_.builds == 2) go_on.wait();
    return absl::OkStatus();
  };
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  const auto program = FindProgram(*service_, {digest_, ""});
  EXPECT_EQ(program->Get()->draft_kernels, 1u);
  EXPECT_EQ(service_->pending_upgrades(), 1);
  go_on.count_down();
  EXPECT_TRUE(test::Eventually([&] { return program->Get()->draft_kernels == 0; }));
  service_ = Restarted(true);
  ASSERT_TRUE(Prepare(*service_, digest_, "").ok());
  EXPECT_EQ(request_.cache.kernels_disk, 1u);
  EXPECT_EQ(FindProgram(*service_, {digest_, ""})->Get()->draft_kernels, 0u);
  EXPECT_EQ(graph_compiler_.builds, 2);
}

TEST_F(CompileServiceTest, ADaemonThatStopsLeavesItsUpgradesToTheNextOne) {
  service_ = Restarted(true);
  std::latch upgrading(1);
  graph_compiler_.on_interrupt = [&](Interrupt& interrupt) -> absl::Status {
    if (graph_compiler_.builds != 2) return absl::OkStatus();
    upgrading.count_down();
    while (interrupt.Check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return interrupt.Check();
  };
  ASSERT_TRUE(Prepare(*service_, "", graph_).ok());
  upgrading.wait();
  service_->StopUpgrades();
  EXPECT_TRUE(test::Eventually([&] { return service_->pending_upgrades() == 0; }));
  EXPECT_EQ(FindProgram(*service_, {digest_, ""})->Get()->draft_kernels, 1u);
  service_ = Restarted(true);
  ASSERT_TRUE(Prepare(*service_, digest_, "").ok());
  EXPECT_EQ(request_.cache.kernels_disk, 1u);  // the draft
  EXPECT_TRUE(test::Eventually(
      [&] { return FindProgram(*service_, {digest_, ""})->Get()->draft_kernels == 0; }));
  EXPECT_EQ(graph_compiler_.builds, 3);
}

}  // namespace
}  // namespace uopd::engine
