// SPDX-License-Identifier: MIT
// Engine::Unready: each reason by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cache/memory/memory_tier.h"
#include "core/base/config/config.h"
#include "core/base/text.h"
#include "server/engine/engine.h"
#include "tests/support/forwarding_tier.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

// A store in memory that says of itself what the test wants.
class TierIn final : public cache::ForwardingTier {
 public:
  TierIn(cache::Tier& inner, cache::State& state) : ForwardingTier(inner), state_(state) {}
  cache::Health health() const override { return {state_, "disk is full"}; }

 private:
  cache::State& state_;
};

class ReadinessTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(worker::ForkServer* forks = nullptr, bool read_only = false) {
    Config config;
    const char* flags[] = {"--server-data-dir=/does/not/exist", "--cache-read-only=true"};
    EXPECT_TRUE(config.SetFromFlags(std::span(flags, read_only ? 2 : 1)).ok());
    EXPECT_TRUE(config.ResolveDefaults().ok());
    return Engine::Create(config, std::make_unique<FakeCompiler>(),
                          cache::StoreOf(std::make_unique<TierIn>(tier_, cache_)), NullRegistry(),
                          forks)
        .value();
  }

  cache::State cache_ = cache::State::kOk;
  cache::StatsTable stats_;
  cache::MemoryTier tier_{1 << 20, cache::WallClockUs, stats_};
};

TEST_F(ReadinessTest, IsReadyOtherwise) { EXPECT_EQ(Make()->Unready(), ""); }

TEST_F(ReadinessTest, Draining) {
  const auto engine = Make();
  engine->Drain(std::chrono::steady_clock::now());
  EXPECT_EQ(engine->Unready(), "draining");
}

TEST_F(ReadinessTest, NoForkServer) {
  worker::ForkServer::Options options;
  options.program = "/does/not/exist";
  const auto none = worker::ForkServer::Start(options).value();
  const auto engine = Make(none.get());
  EXPECT_THAT(engine->Unready(), HasSubstr("fork server"));
}

TEST_F(ReadinessTest, CacheThatCannotBeWritten) {
  const auto engine = Make();
  for (cache::State state : {cache::State::kReadOnly, cache::State::kMemory}) {
    cache_ = state;
    EXPECT_EQ(engine->Unready(), "the cache cannot be written: disk is full");
  }
  cache_ = cache::State::kRecovered;
  EXPECT_EQ(engine->Unready(), "");
}

TEST_F(ReadinessTest, ACacheThatShallNotBeWrittenIsFine) {
  cache_ = cache::State::kReadOnly;
  EXPECT_EQ(Make(nullptr, true)->Unready(), "");
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
  while (engine->Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_THAT(engine->Unready(), HasSubstr("threads for requests have been busy"));
  EXPECT_GE(task_pool.AllBusyFor(), std::chrono::seconds(1));
  stop = true;
  while (!engine->Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine->Unready(), "");
}

TEST_F(ReadinessTest, ARunThatDoesNotEnd) {
  std::atomic<bool> left{false};
  RequestContext request;
  request.cancelled = [&left] { return left.load(); };
  const auto engine = Make();
  auto run = std::make_unique<RunControl>(engine->runs(), request, RunTerms(), true);
  EXPECT_EQ(engine->Unready(), "");
  left = true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine->Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(engine->Unready(), HasSubstr("a device is stuck"));
  run = nullptr;
  EXPECT_EQ(engine->Unready(), "");
}

}  // namespace
}  // namespace uopd::engine
