// SPDX-License-Identifier: MIT
// The tests' own reader of /proc: a process that ends while it is read is left out, and nothing
// throws.
#include "tests/support/processes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace uopd::test {
namespace {

TEST(ProcessesTest, ReadsWhileProcessesComeAndGo) {
  std::atomic<bool> done = false;
  std::jthread forks([&done] {
    while (!done) {
      pid_t children[16];
      for (pid_t& child : children) {
        child = fork();
        if (child == 0) _exit(0);
      }
      for (const pid_t child : children) waitpid(child, nullptr, 0);
    }
  });
  for (int i = 0; i < 600; ++i) EXPECT_NO_THROW(Descendants(getpid())) << i;
  done = true;
}

}  // namespace
}  // namespace uopd::test
