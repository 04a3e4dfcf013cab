// SPDX-License-Identifier: MIT
// A server that answers, but so late that requests must not wait for it. In simulated time.
#include <utility>

#include "cache/base/wait/wait.h"
#include "cache/load_or_compute.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "tests/unit/cache/cluster/key_files.h"
#include "tests/unit/cache/cluster/sharing_store.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SlowServerTest : public KeyFiles {
 protected:
  SlowServerTest() {
    state_->travel = [this](Deadline deadline) -> absl::Status {
      const bool in_time = deadline == Deadline::max() || now_ + distance_ <= deadline;
      now_ = in_time ? now_ + distance_ : deadline;
      if (in_time) return absl::OkStatus();
      return absl::DeadlineExceededError("too late");
    };
    store_ = Open();
    other_ = Open();
  }
  std::unique_ptr<Store> Open() {
    ClusterOptions options{.sign = hmac_, .trusted = {hmac_}, .threads = false};
    options.steady = [this] { return now_; };
    options.now = [this] {
      return kBegin +
             std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count();
    };
    options.on_change = [this](const std::string& line) { lines_.push_back(line); };
    return SharingStore(state_, std::move(options), RefillOptions{.thread = false});
  }
  // How long a request waits for a kernel that nobody has, beside the compiler. Its record is sent
  // afterwards.
  Deadline::duration WaitForNew() {
    const Deadline begin = now_;
    const auto loaded =
        group_.LoadOrCompute(*store_, Key("kernel", Cat("new ", ++made_), "env"),
                             {.lease_ttl_us = 5'000'000, .owner = "me"},
                             [](const WorkLimits&) -> absl::StatusOr<std::string> { return "k"; });
    EXPECT_EQ(loaded->outcome, LoadOutcome::kComputed);
    const Deadline::duration waited = now_ - begin;
    while (store_->maybe_cluster()->SendOne() == Cluster::Sent::kSettled) {
    }
    return waited;
  }
  // The threads of the cluster ask what they ask every two seconds and every 16.
  void Background() {
    now_ += seconds(2);
    store_->maybe_cluster()->AskWanted();
    store_->maybe_cluster()->HearNotices();
    if (++passed_ % 8 == 0) store_->maybe_refill()->Look();
  }

  static constexpr int64_t kBegin = 1'800'000'000'000'000;
  const std::shared_ptr<FakeServerState> state_ = std::make_shared<FakeServerState>();
  Deadline now_{seconds(1000)};
  Deadline::duration distance_ = milliseconds(0);
  std::vector<std::string> lines_;
  std::unique_ptr<Store> store_, other_;
  LoadGroup group_;
  int made_ = 0, passed_ = 0;
};

TEST_F(SlowServerTest, NewKernelsDoNotPayForItForEver) {
  for (const auto distance : {milliseconds(11), milliseconds(18), milliseconds(20),
                              milliseconds(25), milliseconds(300)}) {
    SCOPED_TRACE(distance.count());
    distance_ = milliseconds(0);
    for (int i = 0; i < 20; ++i) Background();
    EXPECT_FALSE(store_->maybe_cluster()->server()->too_slow());
    EXPECT_EQ(metrics::ClusterTooSlow().value(), 0);
    lines_.clear();
    distance_ = distance;
    Deadline::duration all{0};
    for (int i = 0; i < 10; ++i) {
      all += WaitForNew();
      Background();
    }
    EXPECT_LT(all, milliseconds(600)) << "until it is known";
    EXPECT_TRUE(store_->maybe_cluster()->server()->too_slow());
    EXPECT_TRUE(store_->maybe_cluster()->server()->reachable());
    EXPECT_EQ(metrics::ClusterTooSlow().value(), 1);
    ASSERT_FALSE(lines_.empty());
    EXPECT_NE(lines_.back().find("cache.cluster_budget_ms (20.0)"), std::string::npos)
        << lines_.back();
    all = {};
    for (int i = 0; i < 1000; ++i) {
      all += WaitForNew();
      if (i % 10 == 0) Background();
    }
    EXPECT_EQ(all, milliseconds(0));
  }
  EXPECT_GE(store_->maybe_cluster()->stats().puts, 5'000) << "the others get all of it";
}

TEST_F(SlowServerTest, ANearServerIsAskedByEachRequest) {
  distance_ = milliseconds(9);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(WaitForNew(), milliseconds(27));
    Background();
  }
  EXPECT_FALSE(store_->maybe_cluster()->server()->too_slow());
}

// A new connection takes several times as long as an answer.
TEST_F(SlowServerTest, ConnectingSaysNothing) {
  state_->travel = [this](Deadline) {
    ++state_->connections;
    now_ += milliseconds(19);
    return absl::OkStatus();
  };
  for (int i = 0; i < 100; ++i) WaitForNew();
  EXPECT_FALSE(store_->maybe_cluster()->server()->too_slow());
}

// A server that is paused answers nothing. That is the circuit breaker's, and says nothing about
// the way to it.
TEST_F(SlowServerTest, AServerThatDoesNotAnswerIsNotSlow) {
  distance_ = seconds(100);
  for (int i = 0; i < 100; ++i) WaitForNew();
  EXPECT_FALSE(store_->maybe_cluster()->server()->too_slow());
  EXPECT_FALSE(store_->maybe_cluster()->server()->reachable());
}

// Where nothing else asks the server, one question in 16 seconds shows when it is near again.
TEST_F(SlowServerTest, ProbesAreRareAndFindOutThatItIsNear) {
  const auto get = [&] {
    const Deadline begin = now_;
    EXPECT_FALSE(store_->Get(Key("kernel", Cat("other ", ++made_), "env")).hit());
    return now_ - begin;
  };
  distance_ = milliseconds(15);
  while (!store_->maybe_cluster()->server()->too_slow()) get();
  Deadline::duration all{0};
  for (int i = 0; i < 1600; ++i) {
    all += get();
    now_ += milliseconds(100);
  }
  EXPECT_GE(all, 9 * distance_);
  EXPECT_LE(all, 11 * distance_);
  distance_ = milliseconds(1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(store_->maybe_cluster()->server()->too_slow());
    now_ += GuardedServer::kProbePause;
    get();
  }
  EXPECT_FALSE(store_->maybe_cluster()->server()->too_slow());
  EXPECT_NE(lines_.back().find("in time again"), std::string::npos);
}

// Searches are as few as before: nobody's request waits for their leases.
TEST_F(SlowServerTest, WhoIsPatientStillCoordinates) {
  distance_ = milliseconds(25);
  for (int i = 0; i < 10; ++i) Background();
  ASSERT_TRUE(store_->maybe_cluster()->server()->too_slow());
  const Key search("tuning", "graph", "env"), kernel("kernel", "graph", "env");
  for (const Key* key : {&search, &kernel}) {
    ASSERT_TRUE(state_->leases.TryLease(key->address(), "far away", 60'000'000).granted());
  }
  store_->leases().BePatient(search.address());
  const LeaseResult busy = store_->TryLease(search, "me", 10'000'000);
  EXPECT_EQ(busy.outcome, LeaseOutcome::kBusy);
  EXPECT_EQ(busy.holder, "far away");
  EXPECT_TRUE(store_->leases().IsHeld(search.address()));
  EXPECT_TRUE(store_->TryLease(kernel, "me", 10'000'000).granted()) << "of this machine";
  EXPECT_TRUE(store_->maybe_cluster()->SettledUs().ok());
  // What another daemon found is found by the lookup of a search.
  ASSERT_TRUE(other_->Put(search, "winner", 1).ok());
  EXPECT_EQ(other_->maybe_cluster()->SendOne(), Cluster::Sent::kSettled);
  EXPECT_FALSE(store_->Get(search).hit());
  EXPECT_TRUE(store_->Get(search, /*patient=*/true).hit());
}

}  // namespace
}  // namespace uopd::cache
