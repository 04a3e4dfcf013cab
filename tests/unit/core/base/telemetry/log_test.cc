// SPDX-License-Identifier: MIT
#include "core/base/telemetry/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <thread>
#include <vector>

#include "core/base/telemetry/log_limiter.h"
#include "core/base/telemetry/log_tail.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/unique_fd.h"

namespace uopd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// Sends lines to a file of its own and back to stderr at the end.
class LogTest : public ::testing::Test {
 protected:
  LogTest() : path_(::testing::TempDir() + "/uopd_log_test." + std::to_string(getpid())) {
    EXPECT_TRUE(OpenLogFile(path_).ok());
    SetLogLevel(LogLevel::kInfo);
  }
  ~LogTest() override {
    EXPECT_TRUE(OpenLogFile("").ok());
    SetLogLevel(LogLevel::kInfo);
    unlink(path_.c_str());
  }

  std::vector<std::string> Lines() {
    std::ifstream file(path_);
    std::vector<std::string> out;
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }

  const std::string path_;
};

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

// Whatever the umask is; and a file that somebody has made, as logrotate does, keeps its own.
TEST_F(LogTest, AFileThatIsMadeHasTheModeThatWasAsked) {
  const mode_t before = umask(0077);
  unlink(path_.c_str());
  EXPECT_TRUE(OpenLogFile(path_, 0640).ok());
  EXPECT_EQ(ModeOf(path_), 0640u);
  unlink(path_.c_str());
  EXPECT_TRUE(ReopenLogFile().ok());
  EXPECT_EQ(ModeOf(path_), 0640u);
  EXPECT_EQ(chmod(path_.c_str(), 0604), 0);
  EXPECT_TRUE(ReopenLogFile().ok());
  EXPECT_EQ(ModeOf(path_), 0604u);
  umask(before);
}

TEST_F(LogTest, LineHasTimeLevelMessageAndFields) {
  UOPD_LOG(kInfo, "session opened", {"id", "abc"}, {"ttl_ms", 5}, {"share", 0.25},
           {"resumed", true});
  UOPD_LOG(kWarn, "bare");
  auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(std::regex_match(
      lines[0], std::regex(R"(ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info )"
                           R"re(msg="session opened" id=abc ttl_ms=5 share=0\.25 resumed=true)re")))
      << lines[0];
  EXPECT_THAT(lines[1], EndsWith(" level=warn msg=bare"));
}

TEST_F(LogTest, WhatIsNoTextIsEscaped) {
  UOPD_LOG(kInfo, "m", {"a", "\xff"}, {"b", "\xc3"}, {"c", "x\x80y"}, {"d", "\xc2\x9b[2J"},
           {"e", "\xe2\x82\xac\xf0\x9f\x98\x80"});
  EXPECT_THAT(Lines().at(0), EndsWith(R"( a="\xff" b="\xc3" c="x\x80y" d="\xc2\x9b[2J")"
                                      " e=\xe2\x82\xac\xf0\x9f\x98\x80"));
}

TEST_F(LogTest, ValuesOfClientsAreCut) {
  EXPECT_EQ(ClientText("short"), "short");
  EXPECT_EQ(ClientText(std::string(kClientTextBytes, 'x')), std::string(kClientTextBytes, 'x'));
  const std::string cut = ClientText(std::string(kClientTextBytes - 1, 'x') + "\xc3\xa4" + "yyy");
  EXPECT_EQ(cut, std::string(kClientTextBytes - 1, 'x') + "... (204 bytes)");  // between characters
}

TEST_F(LogTest, ALimiterCountsWhatItDrops) {
  LogLimiter limiter(2);
  const LogLimiter::Clock::time_point begin{};
  const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  uint64_t dropped = 9;
  EXPECT_TRUE(limiter.Take(&dropped, at(0)));
  EXPECT_EQ(dropped, 0u);
  EXPECT_TRUE(limiter.Take(&dropped, at(10)));
  EXPECT_FALSE(limiter.Take(&dropped, at(20)));
  EXPECT_FALSE(limiter.Take(&dropped, at(999)));
  EXPECT_TRUE(limiter.Take(&dropped, at(1000)));
  EXPECT_EQ(dropped, 2u);
  EXPECT_TRUE(limiter.Take(&dropped, at(1000)));
  EXPECT_EQ(dropped, 0u);
}

TEST_F(LogTest, ValuesCannotForgeLines) {
  UOPD_LOG(kInfo, "m", {"k", "a\nts=0 level=error"}, {"q", "say \"x\\\""}, {"e", ""},
           {"c", std::string("\x01\x7f")}, {"u", "\xc3\xa4"});
  auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0],
              HasSubstr(R"re(k="a\nts=0 level=error" q="say \"x\\\"" c="\x01\x7f" u=)re"));
}

TEST_F(LogTest, LevelOffCostsNoEvaluation) {
  int evaluated = 0;
  auto count = [&] { return ++evaluated; };
  UOPD_LOG(kDebug, "quiet", {"n", count()});
  EXPECT_EQ(evaluated, 0);
  ASSERT_TRUE(SetLogLevel("debug").ok());
  UOPD_LOG(kDebug, "loud", {"n", count()});
  EXPECT_EQ(evaluated, 1);
  SetLogLevel(LogLevel::kOff);
  UOPD_LOG(kError, "never", {"n", count()});
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(Lines().size(), 1u);
  EXPECT_EQ(SetLogLevel("loud").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LogTest, ThreadsDoNotMixLines) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; i++) {
        UOPD_LOG(kInfo, "work", {"thread", t % 2 ? "odd" : "even"}, {"i", i});
      }
    });
  }
  for (int i = 0; i < 20; i++) EXPECT_TRUE(ReopenLogFile().ok());
  for (auto& thread : threads) thread.join();
  auto lines = Lines();
  EXPECT_EQ(lines.size(), 800u);
  for (const std::string& line : lines) {
    EXPECT_TRUE(
        std::regex_match(line, std::regex(R"(ts=\S+ level=info msg=work thread=(odd|even) i=\d+)")))
        << line;
  }
}

TEST_F(LogTest, RotationGoesOnInANewFile) {
  UOPD_LOG(kInfo, "before");
  const std::string rotated = path_ + ".1";
  ASSERT_EQ(rename(path_.c_str(), rotated.c_str()), 0);
  ASSERT_TRUE(ReopenLogFile().ok());
  UOPD_LOG(kInfo, "after");
  auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], EndsWith("msg=after"));
  unlink(rotated.c_str());
}

// A log reader that is stopped loses lines and stops nobody.
TEST_F(LogTest, APipeThatTakesNothingIsNotWaitedFor) {
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_TRUE(OpenLogFile(pipe).ok());  // nobody reads yet
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto lost = [] { return metrics::LogLinesLost().value(); };
  const uint64_t before = lost();
  const std::string text(10'000, 'x');
  int written = 0;
  for (; lost() == before && written < 1000; ++written) UOPD_LOG(kInfo, "fills", {"text", text});
  ASSERT_EQ(lost(), before + 1);
  UOPD_LOG(kInfo, "lost too");
  EXPECT_EQ(lost(), before + 2);
  const auto read_all = [&] {
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = read(reader.get(), buffer, sizeof buffer)) > 0;) {
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  };
  EXPECT_THAT(read_all(), HasSubstr("msg=fills"));
  UOPD_LOG(kInfo, "read again");
  const std::string again = read_all();
  EXPECT_TRUE(std::regex_match(
      again, std::regex("\n?ts=[^ ]+ level=warn msg=\"log lines were lost\" lines=2\n"
                        "ts=[^ ]+ level=info msg=\"read again\"\n")))
      << again;
  ASSERT_TRUE(OpenLogFile(path_).ok());
  unlink(pipe.c_str());
}

// Nor is a terminal that was stopped, or a socket. Standard error is as the caller gave it.
TEST_F(LogTest, StandardErrorThatTakesNothingIsNotWaitedFor) {
  UniqueFd old(dup(STDERR_FILENO));
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal && grantpt(terminal.get()) == 0 && unlockpt(terminal.get()) == 0);
  const UniqueFd line(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(line);
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const UniqueFd near(sockets[0]), far(sockets[1]);
  for (const int target : {line.get(), near.get()}) {
    ASSERT_EQ(dup2(target, STDERR_FILENO), STDERR_FILENO);
    EXPECT_TRUE(OpenLogFile("").ok());
    const uint64_t before = metrics::LogLinesLost().value();
    for (int i = 0; metrics::LogLinesLost().value() == before && i < 100'000; ++i) {
      UOPD_LOG(kInfo, "fills", {"i", i});
    }
    EXPECT_GT(metrics::LogLinesLost().value(), before);
    EXPECT_EQ(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
  }
  dup2(old.get(), STDERR_FILENO);
  EXPECT_TRUE(OpenLogFile("").ok());
  UOPD_LOG(kInfo, "this line says how many were lost, not one of the next test");
}

TEST_F(LogTest, UnusableFileIsAnErrorAndChangesNothing) {
  absl::Status status = OpenLogFile("/nonexistent/folder/log");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("/nonexistent/folder/log"));
  UOPD_LOG(kInfo, "still here");
  EXPECT_EQ(Lines().size(), 1u);
}

// A link of this user is how logs are sent elsewhere. One of somebody else is a trap.
TEST_F(LogTest, OnlyOwnLinksAreFollowed) {
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  ASSERT_TRUE(OpenLogFile(link).ok());
  UOPD_LOG(kInfo, "through the link");
  EXPECT_EQ(Lines().size(), 1u);
  if (geteuid() == 0) {  // only root can make links of others
    ASSERT_EQ(lchown(link.c_str(), 4711, 4711), 0);
    const absl::Status status = OpenLogFile(link);
    EXPECT_THAT(status.ToString(), HasSubstr("symbolic link of another user"));
    EXPECT_TRUE(ReopenLogFile().code() == status.code());
  }
  // The links of /proc/self/fd are of the system.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  EXPECT_TRUE(OpenLogFile("/dev/fd/" + std::to_string(writer.get())).ok());
  UOPD_LOG(kInfo, "through the pipe");
  char line[256];
  EXPECT_GT(read(reader.get(), line, sizeof line), 0);
  unlink(link.c_str());
}

TEST_F(LogTest, TheTailHasNothingThatClientsChose) {
  UOPD_LOG(kWarn, "rpc", {"method", "Run"}, {"req", "secret-1"}, {"trace", "secret-2"},
           {"us", 1234}, {"status", absl::InvalidArgumentError("node secret-3 is wrong")},
           {"title", "secret-4"}, {"why", "a sentence with secret-5"});
  EXPECT_THAT(Lines().back(), HasSubstr("secret-3"));
  EXPECT_THAT(LogTail::Global().Latest(1).front(),
              EndsWith("level=warn msg=rpc method=Run us=1234 status=INVALID_ARGUMENT"));
}

TEST(LogTailTest, KeepsTheLatestLinesWithinItsBounds) {
  LogTail tail;
  for (size_t i = 0; i < 3 * LogTail::kMostLines; ++i) tail.Add(std::to_string(i));
  std::vector<std::string> lines = tail.Latest();
  ASSERT_EQ(lines.size(), LogTail::kMostLines);
  EXPECT_EQ(lines.front(), std::to_string(2 * LogTail::kMostLines));
  EXPECT_EQ(lines.back(), std::to_string(3 * LogTail::kMostLines - 1));
  EXPECT_EQ(tail.Latest(2), std::vector<std::string>({lines[lines.size() - 2], lines.back()}));
  for (size_t i = 0; i < LogTail::kMostLines; ++i) tail.Add(std::string(1 << 20, 'x'));
  lines = tail.Latest();
  EXPECT_EQ(lines.size(), LogTail::kMostBytes / LogTail::kMostLine);
  EXPECT_EQ(lines.front().size(), LogTail::kMostLine);
}

#ifdef NDEBUG
TEST_F(LogTest, BugsAreCountedLoggedOnceAndInternal) {
  for (int i = 0; i < 3; i++) {
    absl::Status status = ReportBug("/src/core/ir/uop.cc", 12, "lost a node");
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.ToString(), HasSubstr("lost a node (bug at core/ir/uop.cc:12)"));
  }
  EXPECT_EQ(metrics::Bugs({"core/ir/uop.cc:12"}).value(), 3u);
  EXPECT_EQ(Lines().size(), 1u);
}
#else
TEST(LogDeathTest, BugsAbortWhereAssertsAreOn) {
  EXPECT_DEATH((void)ReportBug("/src/core/ir/uop.cc", 12, "lost a node"), "lost a node");
}
#endif

}  // namespace
}  // namespace uopd
