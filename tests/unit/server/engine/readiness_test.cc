// SPDX-License-Identifier: MIT
// Engine::Unready: each reason by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/config.h"
#include "core/base/text.h"
#include "server/engine/engine.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

// A store in memory that says of itself what the test wants.
class StoreIn final : public cache::Store {
 public:
  explicit StoreIn(cache::State& state) : state_(state) {}
  cache::GetResult Get(const cache::Key& key) override { return inner_.Get(key); }
  absl::Status Put(const cache::Key& key, std::string bytes, int64_t cost_us) override {
    return inner_.Put(key, std::move(bytes), cost_us);
  }
  absl::Status PutFenced(const cache::Key& key, std::string bytes, int64_t cost_us,
                         int64_t token) override {
    return inner_.PutFenced(key, std::move(bytes), cost_us, token);
  }
  absl::Status Flush() override { return inner_.Flush(); }
  cache::LeaseResult TryLease(const cache::Key& key, std::string_view owner,
                              int64_t ttl_us) override {
    return inner_.TryLease(key, owner, ttl_us);
  }
  absl::Status RenewLease(const cache::Key& key, int64_t token, int64_t ttl_us) override {
    return inner_.RenewLease(key, token, ttl_us);
  }
  absl::Status ReleaseLease(const cache::Key& key, int64_t token) override {
    return inner_.ReleaseLease(key, token);
  }
  cache::WatchOutcome WatchReady(const cache::Key& key, const cache::WaitLimits& limits) override {
    return inner_.WatchReady(key, limits);
  }
  std::vector<cache::Usage> ReadUsage() override { return inner_.ReadUsage(); }
  std::vector<cache::EntryInfo> List(const std::string& store, int64_t limit) override {
    return inner_.List(store, limit);
  }
  std::optional<cache::Key> KeyOf(const Digest& address) override { return inner_.KeyOf(address); }
  absl::Status Clear(const std::string& store) override { return inner_.Clear(store); }
  cache::Health health() const override { return {state_, "disk is full"}; }
  const cache::StatsTable& stats() const override { return inner_.stats(); }

 private:
  cache::MemoryStore inner_{1 << 20};
  cache::State& state_;
};

class ReadinessTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(worker::ForkServer* forks = nullptr, bool read_only = false) {
    Config config;
    const char* flags[] = {"--server-data-dir=/does/not/exist", "--cache-read-only=true"};
    EXPECT_TRUE(config.SetFromFlags(std::span(flags, read_only ? 2 : 1)).ok());
    EXPECT_TRUE(config.ResolveDefaults().ok());
    return Engine::Create(config, std::make_unique<FakePipeline>(),
                          std::make_unique<StoreIn>(cache_), NullRegistry(), forks)
        .value();
  }

  cache::State cache_ = cache::State::kOk;
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
  Executor& executor = engine->executor();
  // Of as many clients: one alone does not get all threads.
  const auto post = [&](int i) {
    executor.Post({.peer = Cat("client ", i), .flow = ""}, [&] {
      while (!stop) std::this_thread::yield();
    });
  };
  for (int i = 1; i < executor.threads(); ++i) post(i);
  EXPECT_EQ(executor.AllBusyFor().count(), 0);
  post(0);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine->Unready().empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_THAT(engine->Unready(), HasSubstr("threads for requests have been busy"));
  EXPECT_GE(executor.AllBusyFor(), std::chrono::seconds(1));
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
