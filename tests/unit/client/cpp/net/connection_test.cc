// SPDX-License-Identifier: MIT
// The stream of calls against a gRPC server in this process that plays a daemon: order, failures,
// lost streams, cancellation.
#include "uopd/connection.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <thread>

#include "core/base/mutex.h"
#include "tests/support/fake_daemon.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ConnectionTest, TellsOfTheDaemon) {
  Connect();
  EXPECT_EQ(connection_->devices()[0].name, "CPU:0");
  EXPECT_EQ(connection_->max_message_bytes(), 16u << 20);
}

TEST_F(ConnectionTest, SendsAGraphOnceAndKeepsTheOrder) {
  Connect();
  std::vector<Answer> answers;
  for (const char* digest : {"a", "b", "a", "c", "b"}) answers.push_back(Run(digest));
  for (const Answer& a : answers) EXPECT_TRUE(a.future.Wait().ok()) << a.future.Wait();
  EXPECT_THAT(Order(), ElementsAre("a", "b", "a", "c", "b"));
  EXPECT_TRUE(answers[0].result->report.graph_sent);
  EXPECT_FALSE(answers[2].result->report.graph_sent);
}

TEST_F(ConnectionTest, ATransferIsInChunks) {
  Connect();
  std::string data((2 << 20) + 5, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31);
  const Future sent = connection_->Upload(9, "", std::make_shared<const std::string>(data));
  std::string read(data.size(), '\0');
  EXPECT_TRUE(connection_->Download(9, read).Wait().ok());
  EXPECT_TRUE(sent.Done());
  EXPECT_TRUE(sent.Wait().ok());
  EXPECT_TRUE(read == data);
  EXPECT_EQ(connection_->Download(8, read).Wait().code(), absl::StatusCode::kNotFound);
  EXPECT_GE(connection_->traffic().upload_bytes, data.size());
  EXPECT_LT(connection_->traffic().upload_bytes, data.size() + 200);
}

TEST_F(ConnectionTest, WhatNeedsAFailedCallFailsAndAllElseRuns) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b", "c", "d", "e"};
    daemon_.failures_ = {"b"};
  }
  const Answer a = Run("a", {1}), b = Run("b", {2}, {1}), c = Run("c", {3}, {2}),
               d = Run("d", {4}, {1}), e = Run("e", {5}, {3});
  std::string missing(1, '\0'), there(2, '\0');
  const Future of_c = connection_->Download(3, missing), of_d = connection_->Download(1, there);
  EXPECT_TRUE(a.future.Wait().ok());
  for (const Future& f : {b.future, c.future, e.future, of_c}) {
    EXPECT_EQ(f.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(StatusText(f.Wait()), HasSubstr("no room for b"));
  }
  EXPECT_TRUE(d.future.Wait().ok());
  EXPECT_TRUE(of_d.Wait().ok());
  EXPECT_EQ(there, "ad");
  EXPECT_THAT(Order(), ElementsAre("a", "d"));
}

TEST_F(ConnectionTest, AnUploadThatFailsFailsWhatReadsIt) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
    daemon_.failing_upload_ = 2;
  }
  auto data = std::make_shared<const std::string>(std::string((2 << 20) + 5, 'x'));
  const Future upload = connection_->Upload(1, "", data);
  const Answer a = Run("a", {2}, {1}), b = Run("b", {3});
  EXPECT_EQ(upload.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(a.future.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(b.future.Wait().ok());
  EXPECT_THAT(Order(), ElementsAre("b"));
}

// Whatever message the stream breaks after, the calls run once, and uploads overwrite nothing that
// a later call wrote.
TEST_F(ConnectionTest, ABrokenStreamLosesAndRepeatsNothing) {
  for (int message = 1; message <= 7; ++message) {
    Connect();
    {
      MutexLock lock(daemon_.mutex_);
      daemon_.graphs_ = {"a", "b"};
      daemon_.buffers_.clear();
      daemon_.order_.clear();
      daemon_.ran_.clear();
      daemon_.last_sequence_ = 0;
      daemon_.resumes_ = 0;
      daemon_.break_after_ = message;
    }
    const Future upload = connection_->Upload(1, "", std::make_shared<const std::string>("xy"));
    const Answer a = Run("a", {}, {1});
    const Answer b = Run("b", {2}, {1});
    std::string first(4, '\0'), second(1, '\0');
    const Future one = connection_->Download(1, first), two = connection_->Download(2, second);
    for (const Future& f : {upload, a.future, b.future, one, two})
      EXPECT_TRUE(f.Wait().ok()) << message << ": " << f.Wait();
    EXPECT_EQ(first, "xyab") << message;
    EXPECT_EQ(second, "b") << message;
    EXPECT_THAT(Order(), ElementsAre("a", "b"));
    MutexLock lock(daemon_.mutex_);
    EXPECT_EQ(daemon_.resumes_, message <= 5 ? 1 : 0) << message;
  }
}

// Each call runs once and in order, whatever is on its way at the moment of a fork, and whoever
// waits is answered. (tests/python/test_process.py forks.)
TEST_F(ConnectionTest, CallsGoOnAfterAFork) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
  }
  std::vector<std::string> expected;
  std::string contents(100, '\0'), read(100, '\0');
  for (int i = 0; i < 30; ++i) {
    for (char& c : contents) c = static_cast<char>(c + i + 1);
    const Future upload = connection_->Upload(1, "", std::make_shared<const std::string>(contents));
    std::vector<Answer> answers;
    for (int k = 0; k < i % 7; ++k) {
      answers.push_back(Run(k % 2 == 0 ? "a" : "b"));
      expected.emplace_back(k % 2 == 0 ? "a" : "b");
    }
    const Future download = connection_->Download(1, read);
    std::thread waiter([&] { EXPECT_TRUE(download.Wait().ok()) << download.Wait(); });
    if (i % 3 == 1) {
      EXPECT_TRUE(upload.Wait().ok());
    }
    Connection::BeforeFork();
    Connection::AfterForkInParent();
    for (const Answer& a : answers) EXPECT_TRUE(a.future.Wait().ok()) << a.future.Wait();
    waiter.join();
    EXPECT_EQ(read, contents) << i;
  }
  EXPECT_EQ(Order(), expected);
  Connection::BeforeFork();
  Connection::AfterForkInParent();
  connection_.reset();  // without any call since
}

TEST_F(ConnectionTest, ACallThatTheDaemonRunsGoesOnAfterAFork) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang"};
  }
  const Answer answer = Run("hang");
  // More forks than a stream may break: a fork is no fault of the daemon.
  for (int i = 0; i < 12; ++i) {
    Connection::BeforeFork();
    Connection::AfterForkInParent();
    EXPECT_FALSE(answer.future.WaitFor(absl::Milliseconds(50))) << answer.future.Wait();
  }
  connection_->Cancel();
  EXPECT_EQ(answer.future.Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(ConnectionTest, AStreamThatBreaksAlwaysIsGivenUp) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a"};
    daemon_.always_breaks_ = true;
  }
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(s), HasSubstr("it breaks always"));
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.always_breaks_ = false;
  }
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

// What was made before is lost, and says so. Everything else is done in another session, also what
// was on its way.
TEST_F(ConnectionTest, AfterARestartOnlyWhatWasMadeBeforeIsLost) {
  for (const bool breaks :
       {false, true}) {  // the stream, or the daemon says that it knows no such session
    Connect();
    {
      MutexLock lock(daemon_.mutex_);
      daemon_.order_.clear();
    }
    const uint64_t old = connection_->NewHandle(), unsent = connection_->NewHandle();
    EXPECT_TRUE(Run("a", {old}).future.Wait().ok());
    EXPECT_TRUE(connection_->Held(old).ok());
    daemon_.Restart();
    if (breaks) {
      MutexLock lock(daemon_.mutex_);
      daemon_.break_after_ = 1;
    }
    const uint64_t made = connection_->NewHandle(), lost = connection_->NewHandle();
    std::string kept(4, '\0'), gone(1, '\0');
    const Answer alone = Run("b"), uses = Run("c", {lost}, {old}), uses_that = Run("d", {}, {lost}),
                 makes = Run("e", {made});
    const Future upload =
        connection_->Upload(unsent, "", std::make_shared<const std::string>("xy"));
    const Answer both = Run("f", {}, {made, unsent});
    const Future read = connection_->Download(unsent, std::span(kept).first(3)),
                 read_old = connection_->Download(old, gone);
    for (const Future& f : {alone.future, makes.future, upload, both.future, read})
      EXPECT_TRUE(f.Wait().ok()) << f.Wait();
    EXPECT_EQ(kept.substr(0, 3), "xyf");
    for (const Future& f : {uses.future, uses_that.future, read_old}) {
      EXPECT_EQ(f.Wait().code(), absl::StatusCode::kFailedPrecondition) << f.Wait();
      EXPECT_THAT(StatusText(f.Wait()),
                  HasSubstr("the daemon at " + options_.address + " was restarted"));
    }
    EXPECT_THAT(Order(), ElementsAre("a", "b", "e", "f"));
    EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Held(old)));
    EXPECT_TRUE(connection_->Held(made).ok());
    EXPECT_TRUE(connection_->Held(unsent).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(Run("a", {}, {old}).future.Wait()));
    EXPECT_TRUE(Run("a", {}, {made, unsent}).future.Wait().ok());
    // And once more.
    daemon_.Restart();
    EXPECT_TRUE(Run("a").future.Wait().ok());
    for (const uint64_t handle : {old, made, unsent}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Held(handle)));
      EXPECT_TRUE(absl::IsFailedPrecondition(Run("a", {}, {handle}).future.Wait()));
    }
  }
}

// A transfer of which the daemon had a part is lost as a whole.
TEST_F(ConnectionTest, AnUploadThatARestartCutsIsLost) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.forgets_after_ = 2;
  }
  const Future upload = connection_->Upload(
      handle, "", std::make_shared<const std::string>(std::string(4 << 20, 'x')));
  EXPECT_TRUE(absl::IsFailedPrecondition(upload.Wait())) << upload.Wait();
  std::string read(1, '\0');
  EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Download(handle, read).Wait()));
  // The same handle again, as the client does that has kept the contents.
  EXPECT_TRUE(
      connection_->Upload(handle, "", std::make_shared<const std::string>("y")).Wait().ok());
  EXPECT_TRUE(connection_->Download(handle, read).Wait().ok());
  EXPECT_EQ(read, "y");
}

TEST_F(ConnectionTest, ALeaseThatRanOutIsNoRestart) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  EXPECT_TRUE(Run("a", {handle}).future.Wait().ok());
  daemon_.EndSession();
  const absl::Status s = Run("a", {}, {handle}).future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(s), HasSubstr("the session on " + options_.address + " has ended"));
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

TEST_F(ConnectionTest, ADaemonThatRefusesForAWhileKeepsTheSession) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  EXPECT_TRUE(Run("a", {handle}).future.Wait().ok());
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_to_resume_ = 2;
    daemon_.break_after_ = 1;
  }
  EXPECT_TRUE(Run("b", {}, {handle}).future.Wait().ok());
  EXPECT_TRUE(connection_->Held(handle).ok());
}

TEST_F(ConnectionTest, WithoutAnotherSessionTheReasonIsTold) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_sessions_ = true;
  }
  daemon_.Restart();
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(s), HasSubstr("too many sessions"));
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_sessions_ = false;
  }
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

// The daemon answers the first chunk and leaves the stream open. Some later chunk is being written
// then, since the daemon reads no more. The client must end the stream by itself.
TEST_F(ConnectionTest, AStreamThatTheClientGivesUpEndsWhileAMessageIsWritten) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.reads_no_more_ = true;
  }
  const Future upload =
      connection_->Upload(1, "", std::make_shared<const std::string>(std::string(64 << 20, 'x')));
  EXPECT_TRUE(upload.WaitFor(absl::Minutes(1)));
  if (upload.Done()) {
    EXPECT_TRUE(upload.Wait().ok()) << upload.Wait();
  }
}

TEST_F(ConnectionTest, ADaemonThatIsAwayIsTriedSomeTimes) {
  Connect();
  server_->Shutdown();
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(s), HasSubstr(options_.address));
}

TEST_F(ConnectionTest, CancelEndsWhatRunsAndWhatWaits) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang", "a"};
  }
  std::vector<Answer> all = {Run("hang"), Run("a"), Run("a", {1})};
  EXPECT_FALSE(all[0].future.WaitFor(absl::Milliseconds(50)));
  connection_->Cancel();
  for (const Answer& a : all) EXPECT_EQ(a.future.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Order(), ElementsAre());
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

TEST_F(ConnectionTest, ACallThatTakesTooLongIsEnded) {
  options_.timeout = absl::Seconds(1);
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang", "a"};
  }
  const Answer hang = Run("hang"), next = Run("a");
  EXPECT_EQ(hang.future.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(next.future.Wait().ok());
}

TEST_F(ConnectionTest, ClosingEndsWhatIsNotDone) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang"};
  }
  const Answer hang = Run("hang");
  EXPECT_FALSE(hang.future.WaitFor(absl::Milliseconds(50)));
  connection_.reset();
  EXPECT_EQ(hang.future.Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(ConnectionTest, ManyThreadsShareIt) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
    daemon_.failures_ = {"b"};
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const bool fails = (i + t) % 5 == 0;
        wrong += Run(fails ? "b" : "a").future.Wait().ok() == fails;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// The server of the fixture is gRPC that the library knows nothing of.
TEST_F(ConnectionTest, AChildOfAProcessThatUsesGrpcForItselfGetsAnError) {
  Connection::BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    Connection::AfterForkInChild();
    ConnectOptions options;
    options.address = "127.0.0.1:1";
    const auto connected = Connection::Connect(options);
    _exit(absl::IsFailedPrecondition(connected.status()) ? 0 : 1);
  }
  Connection::AfterForkInParent();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uopd::client
