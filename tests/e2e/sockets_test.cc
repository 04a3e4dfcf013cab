// SPDX-License-Identifier: MIT
// Where the daemon listens, and who else may use that address.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/client.h"

namespace uopd::e2e {
namespace {

mode_t ModeOf(const std::filesystem::path& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

// Runs the daemon until it ends. Returns its exit status, and its output in `said`.
int RunDaemon(std::vector<std::string> args, std::string* said) {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_fds[1], STDERR_FILENO);
    args.insert(args.begin(), UOPD_BINARY);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  char buffer[1024];
  for (ssize_t n; (n = read(pipe_fds[0], buffer, sizeof buffer)) > 0;) {
    said->append(buffer, static_cast<size_t>(n));
  }
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SocketsTest, AddressesThatMakeNoSenseAreRefused) {
  TemporaryFolder folder;
  for (const char* flag : {"--listen=127.0.0.1", "--listen=127.0.0.1:99999", "--listen=unix:",
                           "--http-listen=127.0.0.1", "--http-listen=127.0.0.1:99999"}) {
    std::string said;
    // The one under test comes last and so wins.
    EXPECT_EQ(RunDaemon({"--data-dir=" + (folder.path() / "data").string(), "--listen=127.0.0.1:0",
                         "--http-listen=", flag},
                        &said),
              2)
        << flag;
    EXPECT_NE(said.find(std::string(flag).substr(std::string(flag).find('=') + 1)),
              std::string::npos)
        << said;
  }
}

TEST(SocketsTest, ASecondDaemonDoesNotTakeTheSocketOfTheFirst) {
  TemporaryFolder folder;
  const std::string socket = (folder.path() / "socket").string();
  DaemonProcess first(folder.path(), {"--listen=unix:" + socket});
  ASSERT_TRUE(first.running());
  EXPECT_EQ(ModeOf(socket), 0600U);
  std::string said;
  EXPECT_EQ(RunDaemon({"--data-dir=" + (folder.path() / "data").string(), "--listen=unix:" + socket,
                       "--http-listen="},
                      &said),
            1);
  EXPECT_NE(said.find("served by process " + std::to_string(first.pid())), std::string::npos)
      << said;
  ExpectServes(first);

  // One that was killed leaves its socket to the next.
  first.Signal(SIGKILL);
  first.Wait();
  EXPECT_TRUE(std::filesystem::exists(socket));
  TemporaryFolder other;
  DaemonProcess next(other.path(), {"--listen=unix:" + socket, "--server-socket-mode=0666"});
  ASSERT_TRUE(next.running());
  EXPECT_EQ(ModeOf(socket), 0666U);
  ExpectServes(next);
  next.Signal(SIGTERM);
  EXPECT_EQ(next.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST(SocketsTest, WhatTheDaemonWritesIsForItsUserAlone) {
  TemporaryFolder folder;
  const mode_t before = umask(0);
  DaemonProcess daemon(folder.path());
  umask(before);
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  const auto data = folder.path() / "data";
  EXPECT_EQ(ModeOf(data), 0700U);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data)) {
    EXPECT_EQ(ModeOf(entry.path()) & 0077, 0U) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace uopd::e2e
