// SPDX-License-Identifier: MIT
#include "server/engine/session/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/engine/base/not_found.h"
#include "tests/support/eventually.h"

namespace uopd::engine {
namespace {

using std::chrono::milliseconds;

class SessionTableTest : public testing::Test {
 protected:
  SessionOptions options_{.ttl = milliseconds(100),
                          .max_ttl = milliseconds(1000),
                          .grace = milliseconds(50),
                          .max_sessions = 2,
                          .session_bytes = 1000};
  Session::Clock::time_point now_{};
  TaskPool task_pool_{1, 10};
  Quota total_{"total", 1500};
  SessionTable table_{options_, total_, task_pool_, [this] { return now_; }, false};
};

TEST_F(SessionTableTest, CallsRenewTheLease) {
  const std::string id = (*table_.Open(milliseconds(0)))->id();
  for (int i = 0; i < 5; ++i) {
    now_ += milliseconds(90);
    ASSERT_TRUE(table_.Use(id).ok());
  }
  now_ += milliseconds(101);
  const auto late = table_.Use(id);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MissingKind(late.status()), kSession);
}

TEST_F(SessionTableTest, AnExpiredSessionResumesInTheGraceTime) {
  std::string id, token;
  {
    auto session = table_.Open(milliseconds(0));
    id = (*session)->id();
    token = (*session)->resume_token();
    EXPECT_NE(id, token);
  }
  now_ += milliseconds(140);
  table_.Sweep();
  EXPECT_FALSE(table_.Use(id).ok());
  EXPECT_EQ((*table_.Resume(token))->id(), id);
  EXPECT_TRUE(table_.Use(id).ok());
  now_ += milliseconds(151);
  EXPECT_FALSE(table_.Resume(token).ok());
  table_.Sweep();
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SessionTableTest, OperatorsSeeTheSessionsThatHoldMostFirst) {
  const auto alices = *table_.Open(milliseconds(0), {.peer = "unix", .tenant = "alice"});
  now_ += milliseconds(20);
  auto bobs = *table_.Open(milliseconds(70), {.peer = "10.0.0.1", .tenant = "bob"});
  const auto charge = *Charge::Take(bobs->quota(), 900, ByteClass::kBuffers);
  now_ += milliseconds(10);
  size_t left_out = 7;
  std::vector<SessionView> all = table_.List("", 10, &left_out);
  EXPECT_EQ(left_out, 0u);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id_prefix, bobs->id().substr(0, 8));
  EXPECT_EQ(all[0].tenant, "bob");
  EXPECT_EQ(all[0].peer, "10.0.0.1");
  EXPECT_EQ(all[0].bytes, 900);
  EXPECT_EQ(all[0].buffers, 0u);
  EXPECT_EQ(all[0].ttl, milliseconds(70));
  EXPECT_EQ(all[0].age, milliseconds(10));
  EXPECT_EQ(all[0].idle, milliseconds(10));
  EXPECT_EQ(all[0].calls, 1);
  EXPECT_EQ(all[0].running, "");
  EXPECT_EQ(all[1].age, milliseconds(30));

  EXPECT_EQ(table_.List("", 1, &left_out)[0].tenant, "bob");
  EXPECT_EQ(left_out, 1u);
  EXPECT_EQ(table_.List("alice", 10, &left_out).size(), 1u);
  EXPECT_EQ(left_out, 0u);
  EXPECT_TRUE(table_.List("carol", 10, &left_out).empty());

  Digest graph;
  graph.bytes = {0x01, 0xab, 0, 0, 0, 0, 0, 0xff, 0x77};
  bobs->NoteRun(graph);
  EXPECT_EQ(table_.List("bob", 1, &left_out)[0].running, "01ab0000000000ff");
  bobs->NoteRunEnd();
  EXPECT_EQ(table_.List("bob", 1, &left_out)[0].running, "");
  bobs = {};
  EXPECT_EQ(table_.List("bob", 1, &left_out)[0].calls, 0);
}

TEST_F(SessionTableTest, ASideTokenIsValidOnceAndWhileItsSessionLives) {
  std::string first, second;
  {
    auto session = *table_.Open(milliseconds(0));
    first = *table_.NewSideToken(*session);
    second = *table_.NewSideToken(*session);
    EXPECT_NE(first, second);
    EXPECT_FALSE(table_.TakeSideToken(first).ok());  // the second one took its place
    EXPECT_EQ((*table_.TakeSideToken(second))->id(), session->id());
    EXPECT_EQ(MissingKind(table_.TakeSideToken(second).status()), kSession);
    EXPECT_FALSE(table_.TakeSideToken("").ok());
    first = *table_.NewSideToken(*session);
  }
  now_ += milliseconds(101);  // expired, and in the grace time
  EXPECT_FALSE(table_.TakeSideToken(first).ok());
  auto other = *table_.Open(milliseconds(0));
  second = *table_.NewSideToken(*other);
  ASSERT_TRUE(table_.Close(other->id()).ok());
  EXPECT_FALSE(table_.TakeSideToken(second).ok());
  EXPECT_FALSE(table_.NewSideToken(*other).ok());
}

TEST_F(SessionTableTest, ASessionInUseDoesNotExpire) {
  auto session = *table_.Open(milliseconds(0));
  now_ += milliseconds(10'000);
  table_.Sweep();
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_TRUE(table_.Use(session->id()).ok());
}

TEST_F(SessionTableTest, ASessionEndsWithItsProcess) {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ProcessName child = ProcessName::OfThisProcess();
  child.pid = pid;
  child.start_time = StartTimeOf(pid);
  std::string held, taken;
  {
    auto one = *table_.Open(milliseconds(0)), two = *table_.Open(milliseconds(0));
    held = one->id();
    taken = two->resume_token();
    table_.SetProcess(*one, ClientProcess(child));
    table_.SetProcess(*two, ClientProcess(child));
  }
  table_.Sweep();
  EXPECT_EQ(table_.size(), 2U);
  {  // somebody else takes it over
    auto session = *table_.Resume(taken);
    table_.SetProcess(*session, ClientProcess(ProcessName::OfThisProcess()));
  }
  EXPECT_EQ(kill(pid, SIGKILL), 0);
  EXPECT_TRUE(test::Eventually([&] {
    table_.Sweep();
    return table_.size() == 1;
  }));
  EXPECT_FALSE(table_.Use(held).ok());
  EXPECT_TRUE(table_.Resume(taken).ok());
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(SessionTableTest, TheEndFreesEverything) {
  {
    auto session = *table_.Open(milliseconds(0));
    ASSERT_TRUE(session->quota().Take(700).ok());
    session->quota().Give(700);
    ASSERT_TRUE(table_.Close(session->id()).ok());
    EXPECT_TRUE(session->closed());
    EXPECT_FALSE(table_.Close(session->id()).ok());
  }
  EXPECT_EQ(total_.used(), 0);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SessionTableTest, LimitsHold) {
  const auto one = table_.Open(milliseconds(999'999));
  EXPECT_EQ((*one)->ttl(), milliseconds(1000));
  const auto two = table_.Open(milliseconds(7));
  EXPECT_EQ((*two)->ttl(), milliseconds(7));
  EXPECT_EQ(table_.Open(milliseconds(0)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE((*one)->quota().Take(1000).ok());
  EXPECT_FALSE((*one)->quota().Take(1).ok());
  EXPECT_FALSE((*two)->quota().Take(501).ok());  // the total
  (*one)->quota().Give(1000);
}

TEST_F(SessionTableTest, OtherLimitsAreThoseOfOpenSessionsToo) {
  const auto session = *table_.Open(milliseconds(0));
  options_.session_bytes = 600;
  table_.set_options(options_);
  EXPECT_THAT(StatusText(session->quota().Take(601)), testing::HasSubstr("session_bytes (600)"));
  options_.session_bytes = 1200;
  table_.set_options(options_);
  EXPECT_TRUE(session->quota().Take(1200).ok());
  session->quota().Give(1200);
}

TEST_F(SessionTableTest, OnePeerMayHaveSoManyAndOthersTheirs) {
  options_.max_peer_sessions = 1;
  table_.set_options(options_);
  std::string id;
  {
    auto first = table_.Open(milliseconds(0), {"a", ""});
    ASSERT_TRUE(first.ok());
    id = (*first)->id();
  }
  const absl::Status refused = table_.Open(milliseconds(0), {"a", ""}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("limits.peer_sessions is 1"), absl::string_view::npos);
  EXPECT_TRUE(table_.Open(milliseconds(0), {"b", ""}).ok());
  ASSERT_TRUE(table_.Close(id).ok());
  EXPECT_TRUE(table_.Open(milliseconds(0), {"a", ""}).ok());
}

TEST_F(SessionTableTest, APeerWithManySessionsLeavesMemoryToOthers) {
  options_.peer_bytes = 1200;
  table_.set_options(options_);
  auto one = table_.Open(milliseconds(0), {"a", ""}), two = table_.Open(milliseconds(0), {"a", ""});
  ASSERT_TRUE(one.ok() && two.ok());
  auto held = Charge::Take((*one)->quota(), 900, ByteClass::kBuffers);
  ASSERT_TRUE(held.ok());
  const absl::Status refused = Charge::Take((*two)->quota(), 301, ByteClass::kBuffers).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("limits.peer_bytes (1200)"), absl::string_view::npos);
  EXPECT_EQ(total_.used(), 900);
  const std::string id = (*two)->id();
  *two = SessionUse();
  ASSERT_TRUE(table_.Close(id).ok());
  auto other = table_.Open(milliseconds(0), {"b", ""});
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(Charge::Take((*other)->quota(), 600, ByteClass::kBuffers).ok());
}

}  // namespace
}  // namespace uopd::engine
