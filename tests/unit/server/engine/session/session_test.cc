// SPDX-License-Identifier: MIT
#include "server/engine/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/engine/session/session_table.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class SessionTest : public testing::Test {
 protected:
  std::shared_ptr<Session> Make(int64_t max_bytes, size_t max_buffers = 10) {
    return std::make_shared<Session>("id", "token", Opener{"peer", "tenant"}, milliseconds(500),
                                     max_bytes, max_buffers, of_peer_, task_pool_);
  }

  DeviceSet devices_{NullRegistry()};
  DeviceState& device_ = **devices_.Get("");
  Quota total_{"limits.total_bytes", 1 << 20};
  const std::shared_ptr<Quota> of_peer_ =
      std::make_shared<Quota>("limits.peer_bytes", 8192, &total_);
  TaskPool task_pool_{1, SIZE_MAX};
};

TEST_F(SessionTest, KnowsWhoOpenedIt) {
  const auto session = Make(4096);
  EXPECT_EQ(session->id(), "id");
  EXPECT_EQ(session->resume_token(), "token");
  EXPECT_EQ(session->peer(), "peer");
  EXPECT_EQ(session->tenant(), "tenant");
  EXPECT_EQ(session->ttl(), milliseconds(500));
  EXPECT_FALSE(session->closed());
  EXPECT_FALSE(session->waited_for());
}

TEST_F(SessionTest, BuffersAreChargedToItAndItsPeerAndGivenBackAtItsEnd) {
  auto session = Make(4096);
  ASSERT_TRUE(session->buffers().Create(1, device_, 1000).ok());
  const int64_t used = session->quota().used();
  EXPECT_GE(used, 1000);
  EXPECT_EQ(of_peer_->used(), used);
  EXPECT_EQ(total_.used(), used);
  const absl::Status over = session->buffers().Create(2, device_, 4000);
  EXPECT_TRUE(absl::IsResourceExhausted(over));
  EXPECT_THAT(StatusText(over), HasSubstr("limits.session_bytes (4096)"));
  EXPECT_EQ(of_peer_->used(), used) << "what was refused is charged nowhere";
  session.reset();
  EXPECT_EQ(of_peer_->used(), 0);
  EXPECT_EQ(total_.used(), 0);
}

TEST_F(SessionTest, TheSessionsOfAPeerShareItsBound) {
  const auto first = Make(1 << 20), second = Make(1 << 20);
  ASSERT_TRUE(first->buffers().Create(1, device_, 6000).ok());
  const absl::Status over = second->buffers().Create(1, device_, 6000);
  EXPECT_TRUE(absl::IsResourceExhausted(over));
  EXPECT_THAT(StatusText(over), HasSubstr("limits.peer_bytes"));
}

TEST_F(SessionTest, ResultsAreChargedToo) {
  const auto session = Make(1 << 20);
  session->results().Remember(1, HashBytes("program"), {{std::string(1000, 'x')}}, {});
  EXPECT_GE(session->quota().used(), 1000);
}

// Handles, request ids and cancelled ids of one session are nothing to another one.
TEST_F(SessionTest, SharesNothingElse) {
  const auto first = Make(4096), second = Make(4096);
  ASSERT_TRUE(first->buffers().Create(7, device_, 64).ok());
  EXPECT_NE(first->buffers().Find(7), nullptr);
  EXPECT_EQ(second->buffers().Find(7), nullptr);
  first->cancelled().Add(5);
  EXPECT_TRUE(first->cancelled().Has(5));
  EXPECT_FALSE(second->cancelled().Has(5));
  ASSERT_TRUE(first->strand().TryEnter());
  EXPECT_TRUE(second->strand().TryEnter());
  first->strand().Leave();
  second->strand().Leave();
}

// A turn in progress holds what it needs of a session that is gone.
TEST_F(SessionTest, ItsStrandOutlivesIt) {
  auto session = Make(4096);
  bool ran = false;
  ASSERT_TRUE(session->strand().TryEnter());
  RequestContext request;
  ASSERT_TRUE(session->strand().Post(request, [&] { ran = true; }).ok());
  Strand& strand = session->strand();
  const auto held = strand.shared_from_this();
  session.reset();
  EXPECT_FALSE(ran);
  held->Leave();
  while (task_pool_.waiting() > 0 || !held->TryEnter()) std::this_thread::yield();
  EXPECT_TRUE(ran);
  held->Leave();
}

TEST_F(SessionTest, ACallBehindAnotherOneWaitsForIt) {
  SessionTable table({}, total_, task_pool_, Session::Clock::now, false);
  auto first = *table.Open(milliseconds(0));
  EXPECT_FALSE(first->waited_for());
  {
    const auto second = *table.Use(first->id());
    EXPECT_TRUE(first->waited_for());
  }
  EXPECT_FALSE(first->waited_for());
}

TEST_F(SessionTest, RemembersWhenACallBeganOrEnded) {
  Session::Clock::time_point now{std::chrono::seconds(10)};
  SessionTable table({}, total_, task_pool_, [&] { return now; }, false);
  std::string id;
  {
    auto use = *table.Open(milliseconds(0));
    id = use->id();
    EXPECT_EQ(use->last_use(), now);
    now += std::chrono::seconds(3);
    EXPECT_NE(use->last_use(), now);
  }
  const auto ended = now;
  now += std::chrono::seconds(4);
  {
    const auto use = *table.Use(id);
    EXPECT_EQ(use->last_use(), now);
    EXPECT_NE(use->last_use(), ended);
  }
}

TEST_F(SessionTest, OneThatIsClosedKeepsItsBuffersForThoseWhoHoldIt) {
  SessionTable table({}, total_, task_pool_, Session::Clock::now, false);
  {
    const auto use = *table.Open(milliseconds(0));
    ASSERT_TRUE(use->buffers().Create(1, device_, 64).ok());
    ASSERT_TRUE(table.Close(use->id()).ok());
    EXPECT_TRUE(use->closed());
    EXPECT_FALSE(table.Use(use->id()).ok());
    EXPECT_NE(use->buffers().Find(1), nullptr);
    EXPECT_GE(total_.used(), 64);
  }
  EXPECT_EQ(total_.used(), 0);
}

}  // namespace
}  // namespace uopd::engine
