// SPDX-License-Identifier: MIT
#include "server/engine/session/client_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/eventually.h"

namespace uopd::engine {
namespace {

// A process that waits until it is killed.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~Child() {
    Kill();
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void Kill() const { kill(pid_, SIGKILL); }
  ProcessName name() const {
    ProcessName out = ProcessName::OfThisProcess();
    out.pid = pid_;
    out.start_time = StartTimeOf(pid_);
    return out;
  }

 private:
  const pid_t pid_;
};

TEST(ClientProcessTest, ThisProcessRuns) {
  const ProcessName name = ProcessName::OfThisProcess();
  EXPECT_EQ(name.pid, getpid());
  EXPECT_FALSE(name.boot_id.empty());
  const ClientProcess process(name);
  EXPECT_TRUE(process.known());
  EXPECT_FALSE(process.Ended());
}

TEST(ClientProcessTest, AKilledProcessHasEndedAlsoIfNobodyHasWaitedForIt) {
  const Child child;
  const ClientProcess process(child.name());
  ASSERT_TRUE(process.known());
  EXPECT_FALSE(process.Ended());
  child.Kill();
  EXPECT_TRUE(test::Eventually([&] { return process.Ended(); }));
  EXPECT_FALSE(ClientProcess(child.name()).known()) << "it cannot be told that it was this one";
}

TEST(ClientProcessTest, OfAnyOtherNameNothingIsKnown) {
  const ProcessName own = ProcessName::OfThisProcess();
  std::vector<ProcessName> names(7, own);
  names[0].boot_id += "0";
  names[1].boot_id = "";
  ++names[2].pid_namespace;
  ++names[3].start_time;
  names[4].pid = 0;
  names[5].pid = -own.pid;
  names[6].pid += int64_t{1} << 32;
  for (size_t i = 0; i < names.size(); ++i) {
    const ClientProcess process(names[i]);
    EXPECT_FALSE(process.known()) << i;
    EXPECT_FALSE(process.Ended()) << i;
  }
  EXPECT_FALSE(ClientProcess().Ended());
}

}  // namespace
}  // namespace uopd::engine
