// SPDX-License-Identifier: MIT
// Health::GetReadiness: each reason by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cache/memory/memory_tier.h"
#include "core/base/config/config.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/engine.h"
#include "tests/support/eventually.h"
#include "tests/support/forwarding_tier.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

// A store in memory that says of itself what the test wants.
class TierIn final : public cache::ForwardingTier {
 public:
  TierIn(cache::Tier& inner, std::atomic<cache::State>& state, std::atomic<cache::Fault>& fault)
      : ForwardingTier(inner), state_(state), fault_(fault) {}
  cache::Health health() const override { return {state_, "why", fault_}; }

 private:
  std::atomic<cache::State>& state_;
  std::atomic<cache::Fault>& fault_;
};

class ReadinessTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(worker::ForkServer* forks = nullptr, bool read_only = false) {
    Config config;
    const char* flags[] = {"--server-data-dir=/does/not/exist", "--cache-read-only=true"};
    EXPECT_TRUE(config.SetFromFlags(std::span(flags, read_only ? 2 : 1)).ok());
    EXPECT_TRUE(config.ResolveDefaults().ok());
    return Engine::Create(config, std::make_unique<FakeCompiler>(),
                          cache::StoreOf(std::make_unique<TierIn>(tier_, cache_, fault_)),
                          NullRegistry(), forks)
        .value();
  }

  std::atomic<cache::State> cache_ = cache::State::kOk;
  std::atomic<cache::Fault> fault_ = cache::Fault::kNone;
  cache::StatsTable stats_;
  cache::MemoryTier tier_{1 << 20, cache::WallClockUs, stats_};
};

double Shown(std::string_view reason) { return metrics::Ready({reason}).value(); }

TEST_F(ReadinessTest, IsReadyOtherwise) {
  const auto engine = Make();
  const Readiness now = engine->health().GetReadiness(true);
  EXPECT_TRUE(now.not_ready.empty());
  EXPECT_TRUE(now.degraded.empty());
  EXPECT_EQ(Shown("ready"), 1);  // although nobody has asked /readyz
  EXPECT_EQ(Shown("not_ready") + Shown("degraded") + Shown("draining"), 0);
}

TEST_F(ReadinessTest, TheStatusTellsReadyDegradedAndNotReadyApart) {
  const auto engine = Make();
  EXPECT_EQ(engine->health().Status().state, DaemonState::kReady);
  EXPECT_TRUE(engine->health().Status().reasons.empty());
  cache_ = cache::State::kRecovered;
  EXPECT_EQ(engine->health().Status().state, DaemonState::kReady)
      << "it serves, and keeps what it compiles";
  cache_ = cache::State::kReadOnly;
  EXPECT_EQ(engine->health().Status().state, DaemonState::kDegraded);
  EXPECT_THAT(engine->health().Status().reasons,
              testing::ElementsAre(HasSubstr("cannot be written")));
  EXPECT_EQ(engine->health().Status().cache.state, cache::State::kReadOnly);
  const auto reader = Make(nullptr, true);
  EXPECT_EQ(reader->health().Status().state, DaemonState::kReady);
  cache_ = cache::State::kMemory;
  EXPECT_EQ(reader->health().Status().state, DaemonState::kDegraded);
  engine->Drain(std::chrono::steady_clock::now());
  EXPECT_EQ(engine->health().Status().state, DaemonState::kDraining);
}

TEST_F(ReadinessTest, AReloadShowsWhatItChangesAndNoMore) {
  const auto engine = Make();
  const auto value = [&](std::string_view key) {
    for (const SettingView& one : engine->settings().InEffect())
      if (one.key == key) return Cat(one.value, " ", ConfigSourceName(one.source));
    return std::string();
  };
  EXPECT_EQ(value("limits.sessions"), "1000 default");
  EXPECT_EQ(value("server.data_dir"), "/does/not/exist flag");
  Config config;
  const char* flags[] = {"--server-data-dir=/another", "--limits-sessions=5"};
  EXPECT_TRUE(config.SetFromFlags(flags).ok());
  EXPECT_TRUE(config.ResolveDefaults().ok());
  engine->Reload(config);
  EXPECT_EQ(value("limits.sessions"), "5 flag");
  EXPECT_EQ(value("server.data_dir"), "/does/not/exist flag");
}

TEST_F(ReadinessTest, Draining) {
  const auto engine = Make();
  engine->gate().Leave();
  EXPECT_EQ(engine->health().Unready(), "draining");
  EXPECT_TRUE(engine->gate().Begin().ok());  // it serves on
  engine->Drain(std::chrono::steady_clock::now());
  EXPECT_EQ(engine->health().Unready(), "draining");
  const absl::Status refused = engine->gate().Begin().status();
  EXPECT_THAT(StatusText(refused), testing::StartsWith("the daemon is shutting down"));
  EXPECT_TRUE(test::Eventually([] { return Shown("draining") == 1 && Shown("ready") == 0; }));
}

TEST_F(ReadinessTest, NoForkServer) {
  worker::ForkServer::Options options;
  options.program = "/does/not/exist";
  const auto none = worker::ForkServer::Start(options).value();
  const auto engine = Make(none.get());
  EXPECT_THAT(engine->health().Unready(), HasSubstr("fork server"));
}

// A daemon without its cache serves, worse than it should.
TEST_F(ReadinessTest, CacheThatCannotBeWritten) {
  const auto engine = Make();
  const struct {
    cache::State state;
    cache::Fault fault;
    const char *name, *text;
  } cases[] = {
      {cache::State::kReadOnly, cache::Fault::kNone, "cache_read_only",
       "the cache cannot be written: why"},
      {cache::State::kReadOnly, cache::Fault::kFull, "cache_full",
       "the disk of the cache is full: why"},
      {cache::State::kMemory, cache::Fault::kNone, "cache_memory",
       "the cache is in memory only: why"},
      {cache::State::kOk, cache::Fault::kNewer, "cache_newer",
       "the cache is of a newer version: why"},
  };
  for (const auto& one : cases) {
    cache_ = one.state;
    fault_ = one.fault;
    EXPECT_EQ(engine->health().Unready(), "");
    const Readiness now = engine->health().GetReadiness(true);
    ASSERT_EQ(now.degraded.size(), 1u);
    EXPECT_EQ(now.degraded[0].name, one.name);
    EXPECT_EQ(now.degraded[0].text, one.text);
    EXPECT_TRUE(test::Eventually([&] { return Shown(one.name) == 1; }));
    EXPECT_EQ(Shown("ready"), 1);
    EXPECT_EQ(Shown("degraded"), 1);
  }
  // Nor can the file be written that would lie beside the newer one.
  for (const auto& [state, name] : {std::pair(cache::State::kMemory, "cache_memory"),
                                    {cache::State::kReadOnly, "cache_read_only"}}) {
    cache_ = state;
    fault_ = cache::Fault::kNewer;
    const Readiness now = engine->health().GetReadiness(true);
    ASSERT_EQ(now.degraded.size(), 2u);
    EXPECT_EQ(now.degraded[0].name, "cache_newer");
    EXPECT_EQ(now.degraded[1].name, name);
  }
  cache_ = cache::State::kRecovered;
  fault_ = cache::Fault::kNone;
  EXPECT_TRUE(engine->health().GetReadiness(true).degraded.empty());
}

TEST_F(ReadinessTest, ACacheThatShallNotBeWrittenIsFine) {
  cache_ = cache::State::kReadOnly;
  EXPECT_TRUE(Make(nullptr, true)->health().GetReadiness(true).degraded.empty());
}

TEST_F(ReadinessTest, AllThreadsBusy) {
  std::atomic<bool> stop{false};
  const auto engine = Make();
  TaskPool& task_pool = engine->task_pool();
  // Of as many clients: one alone does not get all threads.
  const auto post = [&](int i) {
    task_pool.Post({.peer = Cat("client ", i), .flow = ""}, [&] {
      while (!stop) std::this_thread::yield();
    });
  };
  for (int i = 1; i < task_pool.threads(); ++i) post(i);
  EXPECT_EQ(task_pool.AllBusyFor().count(), 0);
  post(0);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine->health().Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_THAT(engine->health().Unready(), HasSubstr("threads for requests have been busy"));
  EXPECT_GE(task_pool.AllBusyFor(), std::chrono::seconds(1));
  stop = true;
  while (!engine->health().Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine->health().Unready(), "");
}

TEST_F(ReadinessTest, ARunThatDoesNotEnd) {
  std::atomic<bool> left{false};
  RequestContext request;
  request.cancelled = [&left] { return left.load(); };
  const auto engine = Make();
  auto run = std::make_unique<RunControl>(engine->runs().watch(), request, RunTerms(), true);
  EXPECT_EQ(engine->health().Unready(), "");
  left = true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine->health().Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(engine->health().Unready(), HasSubstr("a device is stuck"));
  run = nullptr;
  EXPECT_EQ(engine->health().Unready(), "");
}

}  // namespace
}  // namespace uopd::engine
