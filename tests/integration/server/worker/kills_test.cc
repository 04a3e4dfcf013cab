// SPDX-License-Identifier: MIT
// Child processes killed and stopped at random under load: every job gets its answer, and nothing
// is left. UOPD_KILLS=1000 asks for more than the gate does, UOPD_KILLS_SEED for others.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "gtest/gtest.h"
#include "tests/support/environment.h"
#include "tests/support/processes.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

size_t OpenDescriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++n;
  }
  return n;
}

std::set<pid_t> Below() {
  std::set<pid_t> out;
  for (const auto& process : uopd::test::Descendants(getpid())) out.insert(process.pid);
  return out;
}

// Jobs of some work and of answers small and large, whose right answers are known.
class Load {
 public:
  explicit Load(Supervisor& pool, int threads) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this, &pool, t] { Work(pool, t); });
  }
  void Join() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int done() const { return done_; }

 private:
  void Work(Supervisor& pool, int t) {
    for (int i = 0; !stop_; ++i) {
      Job job{i % 3 == 0 ? kEcho : "spin", Cat(2 + i % 7, ".", t, i)};  // every payload once
      if (i % 9 == 0) job.payload.append(100'000, 'x');                 // by a memfd
      const JobResult result = pool.Run(job, {.deadline = Clock::now() + std::chrono::seconds(60)});
      EXPECT_EQ(result.outcome, JobResult::kDone) << result.status;
      EXPECT_TRUE(result.bytes == job.payload);
      ++done_;
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<int> done_{0};
  std::vector<std::thread> threads_;
};

// Signals to what is below this process, now to this one, now to that one.
int KillAtRandom(const std::set<pid_t>& spared, int kills, std::mt19937& random) {
  int sent = 0;
  while (sent < kills) {
    auto below = uopd::test::Descendants(getpid());
    std::erase_if(below, [&](const auto& p) { return spared.contains(p.pid) || p.state == 'Z'; });
    if (!below.empty()) {
      const auto& victim = below[random() % below.size()];
      // The fork server, whose end takes all workers along, is hit less often.
      const bool hit = victim.name == "uopd-worker" || random() % 16 == 0;
      constexpr int kSignals[] = {SIGKILL, SIGKILL, SIGSTOP, SIGVTALRM};
      if (hit && kill(victim.pid, kSignals[random() % 4]) == 0) ++sent;
    }
    usleep(static_cast<useconds_t>(random() % 20'000));
  }
  return sent;
}

TEST(Kills, CostNoJobAndLeaveNothing) {
  const int kills = test::FromEnvironment("UOPD_KILLS", 60);
  std::mt19937 random(static_cast<unsigned>(test::FromEnvironment("UOPD_KILLS_SEED", 1)));
  ASSERT_TRUE(Forks().AwaitUp({.deadline = Clock::now() + std::chrono::seconds(20)}).ok());
  SetLogLevel(LogLevel::kOff);
  const size_t descriptors = OpenDescriptors();
  const std::set<pid_t> others = Below();
  SupervisorStats stats;
  int done = 0;
  uint64_t restarts = 0;
  {
    ForkServer::Options hasty;
    hasty.look = milliseconds(10);
    const auto forks = ForkServer::Start(hasty).value();
    Supervisor::Options options = PoolOf(3);
    options.look = milliseconds(10);
    Supervisor pool(*forks, options);
    Load load(pool, 4);
    KillAtRandom(others, kills, random);
    load.Join();
    done = load.done();
    stats = pool.stats();
    restarts = forks->restarts();
    EXPECT_EQ(pool.quarantine().size(), 0u);
  }
  SetLogLevel(LogLevel::kInfo);
  RecordProperty("done", done);
  std::printf("%d kills: %d jobs done, %d workers lost in a job, %d idle, %d fork servers\n", kills,
              done, static_cast<int>(stats.lost_busy), static_cast<int>(stats.lost_idle),
              static_cast<int>(restarts));
  EXPECT_GT(stats.lost_busy + stats.lost_idle, 0u);
  EXPECT_GT(done, kills);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  for (const pid_t pid : Below()) EXPECT_TRUE(others.contains(pid)) << pid;  // not even a zombie
}

}  // namespace
}  // namespace uopd::worker
