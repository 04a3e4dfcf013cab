// SPDX-License-Identifier: MIT
// A process that holds a lease until it is told to end.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/stop_child.h"

namespace uopd::cache {

class HolderProcess {
 public:
  // hold() takes the lease in the other process, and returns whether it was granted.
  template <class Hold>
  explicit HolderProcess(const Hold& hold) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const bool granted = hold();
      [[maybe_unused]] const ssize_t told = write(ready[1], granted ? "y" : "n", 1);
      for (;;) pause();
    }
    char granted = 0;
    EXPECT_EQ(read(ready[0], &granted, 1), 1);
    EXPECT_EQ(granted, 'y');
    close(ready[0]);
    close(ready[1]);
  }
  ~HolderProcess() { Kill(); }
  HolderProcess(const HolderProcess&) = delete;
  HolderProcess& operator=(const HolderProcess&) = delete;
  void Freeze() const { test::StopChild(pid_); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace uopd::cache
