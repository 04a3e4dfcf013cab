// SPDX-License-Identifier: MIT
#include "server/worker/supervisor.h"

#include <signal.h>

#include <atomic>
#include <set>
#include <thread>

#include "core/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/processes.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

TEST(Supervisor, RunsJobs) {
  Supervisor pool(Forks(), PoolOf(1));
  JobResult result = pool.Run({kEcho, "hello"});
  ASSERT_EQ(result.outcome, JobResult::kDone) << result.status;
  EXPECT_EQ(result.bytes, "hello");
  result = pool.Run({"fail", ""});
  EXPECT_EQ(result.outcome, JobResult::kFailed);
  EXPECT_TRUE(absl::IsNotFound(result.status));
  EXPECT_TRUE(absl::IsUnimplemented(pool.Run({"no such job", ""}).status));
  EXPECT_EQ(pool.stats().spawned, 1);
  EXPECT_EQ(pool.stats().idle, 1);
}

TEST(Supervisor, CarriesLargePayloads) {
  Supervisor pool(Forks(), PoolOf(1));
  std::string large(5'000'001, 'a');
  large[4'000'000] = 'b';
  const JobResult result = pool.Run({kEcho, large});
  ASSERT_EQ(result.outcome, JobResult::kDone) << result.status;
  EXPECT_TRUE(result.bytes == large);
}

TEST(Supervisor, BoundsAnswers) {
  Supervisor::Options options = PoolOf(1);
  options.max_answer_bytes = 1000;
  Supervisor pool(Forks(), options);
  EXPECT_EQ(pool.Run({kEcho, std::string(500, 'x')}).outcome, JobResult::kDone);
  EXPECT_EQ(pool.Run({kEcho, std::string(5'000'000, 'x')}).outcome, JobResult::kCrashed);
}

TEST(Supervisor, WhatOthersPutIntoQuarantineIsRefused) {
  Supervisor::Options options = PoolOf(1);
  const Job bad{kEcho, "bad"};
  int asked = 0;
  options.look_up = [&](const Digest& job) -> std::optional<QuarantineEntry> {
    ++asked;
    if (job != JobDigest(bad)) return std::nullopt;
    return QuarantineEntry{job, "crashed elsewhere"};
  };
  Supervisor pool(Forks(), options);
  EXPECT_EQ(pool.Run({kEcho, "well"}).bytes, "well");
  for (int i = 0; i < 2; ++i) {
    const JobResult result = pool.Run(bad);
    EXPECT_TRUE(result.refused);
    EXPECT_NE(StatusText(result.status).find("crashed elsewhere"), std::string::npos);
  }
  EXPECT_EQ(asked, 2) << "an entry is asked for once";
  EXPECT_EQ(pool.quarantine().size(), 1u);
}

TEST(Supervisor, ACrashCostsTheWorkerAndQuarantinesTheJob) {
  std::vector<QuarantineEntry> noted;
  Supervisor::Options options = PoolOf(1);
  options.on_quarantine = [&](const QuarantineEntry& entry) { noted.push_back(entry); };
  Supervisor pool(Forks(), options);
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE}) {
    const Job job{"signal", Cat(signal)};
    const JobResult result = pool.Run(job);
    ASSERT_EQ(result.outcome, JobResult::kCrashed) << result.status;
    EXPECT_EQ(result.signal, signal);
    EXPECT_TRUE(result.quarantined);
    EXPECT_TRUE(absl::IsAborted(result.status));
    const JobResult again = pool.Run(job);
    EXPECT_EQ(again.outcome, JobResult::kFailed);
    EXPECT_TRUE(again.refused);
    EXPECT_TRUE(absl::IsFailedPrecondition(again.status));
  }
  EXPECT_EQ(pool.Run({kEcho, "well"}).bytes, "well");
  const SupervisorStats stats = pool.stats();
  EXPECT_EQ(stats.crashed, 3);
  EXPECT_EQ(stats.refused, 3);
  EXPECT_EQ(stats.spawned, 4);
  EXPECT_EQ(stats.workers, 1);
  EXPECT_EQ(pool.quarantine().entries(), noted);
  EXPECT_EQ(stats.lost_busy, 0);
  ASSERT_EQ(noted.size(), 3);
  EXPECT_EQ(noted[0].job, JobDigest({"signal", Cat(SIGSEGV)}));
  EXPECT_THAT(noted[0].reason, HasSubstr("SIGSEGV"));
  EXPECT_GT(noted[0].since_s, 0);
  EXPECT_FALSE(noted[0].passing());
}

TEST(Supervisor, TheQuarantineKnowsAJobByItsIdentity) {
  Supervisor pool(Forks(), PoolOf(1));
  const Job kills{"signal", Cat(SIGSEGV), std::chrono::seconds(20), "kernel"};
  EXPECT_TRUE(pool.Run(kills).quarantined);
  Job other{"signal", Cat(SIGFPE), std::chrono::seconds(20), "kernel"};
  EXPECT_TRUE(pool.Run(other).refused) << "the same kernel with another payload";
  other.identity = "other kernel";
  EXPECT_FALSE(pool.Run(other).refused);
}

TEST(Supervisor, AJobWithAWrongAnswerCanBeCondemned) {
  std::vector<QuarantineEntry> noted;
  int kills = 0;
  Supervisor::Options options = PoolOf(1);
  options.on_quarantine = [&](const QuarantineEntry& entry) { noted.push_back(entry); };
  options.on_kill = [&] { ++kills; };
  Supervisor pool(Forks(), options);
  const Job job{kEcho, "wrong"};
  EXPECT_EQ(pool.Run(job).outcome, JobResult::kDone);
  pool.Condemn(job, absl::InternalError("element 3 differs"));
  pool.Condemn(job, absl::InternalError("element 4 differs"));
  EXPECT_TRUE(pool.Run(job).refused);
  EXPECT_EQ(pool.Run({kEcho, "right"}).outcome, JobResult::kDone);
  ASSERT_EQ(noted.size(), 1u) << "the first reason stays";
  EXPECT_EQ(noted[0].job, JobDigest(job));
  EXPECT_THAT(noted[0].reason, HasSubstr("element 3 differs"));
  EXPECT_FALSE(noted[0].passing());
  EXPECT_EQ(kills, 0) << "no worker died";
  EXPECT_EQ(pool.Run({"signal", Cat(SIGSEGV)}).outcome, JobResult::kCrashed);
  EXPECT_EQ(kills, 1);
}

// Runs a job of some time on its own thread.
class RunningJob {
 public:
  explicit RunningJob(Supervisor& pool, const char* ms = "60") {
    thread_ = std::thread([this, &pool, ms] { result_ = pool.Run({"spin", ms}); });
  }
  JobResult Join() {
    thread_.join();
    return std::move(result_);
  }

 private:
  JobResult result_;
  std::thread thread_;
};

// Of the one worker; waits until it has used some time.
pid_t BusyWorker() {
  for (;;) {
    for (const uopd::test::Process& process : uopd::test::Descendants(getpid())) {
      if (process.name == "uopd-spinner" && process.cpu_ticks > 1 && process.state == 'R') {
        return process.pid;
      }
    }
  }
}

Supervisor::Options Spinner() {
  Supervisor::Options options = PoolOf(1);
  options.setup.name = "uopd-spinner";
  return options;
}

TEST(Supervisor, AKillFromOutsideRunsTheJobAgain) {
  int lost = 0;
  for (int signal : {SIGKILL, SIGSTKFLT, SIGRTMIN}) {
    Supervisor::Options options = Spinner();
    options.on_lost = [&] { ++lost; };
    Supervisor pool(Forks(), options);
    RunningJob job(pool);
    ASSERT_EQ(kill(BusyWorker(), signal), 0);
    const JobResult result = job.Join();
    EXPECT_EQ(result.outcome, JobResult::kDone) << signal << " " << result.status;
    EXPECT_EQ(result.bytes, "60");
    EXPECT_EQ(pool.stats().lost_busy, 1u);
    EXPECT_EQ(pool.stats().spawned, 2u);
    EXPECT_EQ(pool.quarantine().size(), 0u);
  }
  EXPECT_EQ(lost, 3);
}

TEST(Supervisor, AWorkerThatIsStoppedInAJobIsReplaced) {
  Supervisor pool(Forks(), Spinner());
  RunningJob job(pool);
  ASSERT_EQ(kill(BusyWorker(), SIGSTOP), 0);
  const JobResult result = job.Join();
  EXPECT_EQ(result.outcome, JobResult::kDone) << result.status;
  EXPECT_EQ(pool.stats().lost_busy, 1u);
  EXPECT_EQ(pool.quarantine().size(), 0u);
}

TEST(Supervisor, AWorkerThatIsStoppedAtItsTimeLimitIsNotToBlame) {
  Supervisor::Options options = PoolOf(1);
  options.look = std::chrono::hours(1);
  Supervisor pool(Forks(), options);
  const JobResult result = pool.Run({"signal", Cat(SIGSTOP), milliseconds(30)});
  EXPECT_EQ(result.outcome, JobResult::kCrashed) << result.status;
  EXPECT_THAT(result.status.ToString(), HasSubstr("stopped"));
  EXPECT_TRUE(result.passing);
  EXPECT_EQ(pool.stats().lost_busy, Supervisor::kMaxOutside);
}

TEST(Supervisor, AStoppedWorkerCanBeCancelled) {
  Supervisor::Options options = PoolOf(1);
  options.look = std::chrono::hours(1);
  Supervisor pool(Forks(), options);
  const auto begin = Clock::now();
  const JobResult result =
      pool.Run({"signal", Cat(SIGSTOP)},
               {.cancelled = [&] { return Clock::now() - begin > milliseconds(50); }});
  EXPECT_EQ(result.outcome, JobResult::kCancelled) << result.status;
  EXPECT_EQ(pool.stats().workers, 0);
}

TEST(Supervisor, AWorkerThatIsStoppedIdleIsReplaced) {
  Supervisor pool(Forks(), PoolOf(1));
  const std::string first = pool.Run({"pid", ""}).bytes;
  ASSERT_EQ(kill(std::stoi(first), SIGSTOP), 0);
  const JobResult second = pool.Run({"pid", "2"});
  ASSERT_EQ(second.outcome, JobResult::kDone) << second.status;
  EXPECT_NE(second.bytes, first);
  EXPECT_EQ(pool.stats().lost_idle, 1u);
  EXPECT_EQ(pool.stats().lost_busy, 0u);
}

TEST(Supervisor, KillsThatRepeatAreHeldAgainstTheJobForAWhile) {
  Supervisor pool(Forks(), PoolOf(1));
  const JobResult result = pool.Run({"signal", Cat(SIGKILL)});
  EXPECT_EQ(result.outcome, JobResult::kCrashed);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_TRUE(result.quarantined && result.passing);
  EXPECT_EQ(pool.stats().spawned, Supervisor::kMaxOutside);
  const JobResult again = pool.Run({"signal", Cat(SIGKILL)});
  EXPECT_TRUE(again.refused && again.passing);
  const auto entries = pool.quarantine().entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].life, Supervisor::kPassing);
}

TEST(Supervisor, WhoIsKilledTwiceForMemoryIsHeldResponsibleSooner) {
  Supervisor::Options options = PoolOf(1);
  uint64_t count = 7;
  options.out_of_memory = [&] { return count++; };
  Supervisor pool(Forks(), options);
  EXPECT_TRUE(pool.Run({"signal", Cat(SIGKILL)}).passing);
  EXPECT_EQ(pool.stats().spawned, 2u);
}

TEST(Supervisor, JobsOutliveTheirForkServer) {
  for (int signal : {SIGKILL, SIGSTOP}) {
    ForkServer::Options hasty;
    hasty.look = milliseconds(20);
    const auto forks = ForkServer::Start(hasty).value();
    Supervisor pool(*forks, Spinner());
    RunningJob job(pool);
    BusyWorker();
    ASSERT_EQ(kill(forks->pid(), signal), 0);
    const JobResult result = job.Join();
    EXPECT_EQ(result.outcome, JobResult::kDone) << result.status;
    EXPECT_EQ(pool.Run({kEcho, "after"}).bytes, "after");
    EXPECT_EQ(pool.quarantine().size(), 0u);
  }
}

TEST(Supervisor, WhatWasQuarantinedBeforeIsRefused) {
  Supervisor pool(Forks(), PoolOf(1));
  pool.quarantine().Add({JobDigest({kEcho, "bad"}), "crashed last week"});
  const JobResult result = pool.Run({kEcho, "bad"});
  EXPECT_TRUE(result.refused);
  EXPECT_THAT(result.status.ToString(), HasSubstr("last week"));
  EXPECT_EQ(pool.Run({kEcho, "good"}).outcome, JobResult::kDone);
}

TEST(Supervisor, AWorkerThatExitsInAJobHasCrashed) {
  Supervisor pool(Forks(), PoolOf(1));
  const JobResult result = pool.Run({"exit", "7"});
  EXPECT_EQ(result.outcome, JobResult::kCrashed);
  EXPECT_EQ(result.signal, 0);
  EXPECT_THAT(result.status.ToString(), HasSubstr("exit code 7"));
}

TEST(Supervisor, TheTimeLimitKillsAndBlames) {
  Supervisor pool(Forks(), PoolOf(1));
  Job job{"hang", "", milliseconds(30)};
  JobResult result = pool.Run(job);
  EXPECT_EQ(result.outcome, JobResult::kTimedOut);
  EXPECT_TRUE(result.quarantined);
  EXPECT_TRUE(pool.Run(job).refused);
  EXPECT_EQ(pool.stats().timed_out, 1);
  EXPECT_EQ(pool.stats().workers, 0);
}

TEST(Supervisor, TheCallersDeadlineKillsAndBlamesNobody) {
  Supervisor pool(Forks(), PoolOf(1));
  const Job job{"hang", "", milliseconds(60'000)};
  for (int i = 0; i < 2; ++i) {
    const JobResult result = pool.Run(job, {.deadline = Clock::now() + milliseconds(30)});
    EXPECT_EQ(result.outcome, JobResult::kTimedOut);
    EXPECT_FALSE(result.quarantined || result.refused);
  }
  EXPECT_EQ(pool.quarantine().size(), 0);
}

TEST(Supervisor, CancellingKillsAndBlamesNobody) {
  Supervisor pool(Forks(), PoolOf(1));
  int asked = 0;
  const JobResult result = pool.Run({"hang", ""}, {.cancelled = [&] { return ++asked > 8; }});
  EXPECT_EQ(result.outcome, JobResult::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(result.status));
  EXPECT_EQ(pool.quarantine().size(), 0);
  EXPECT_EQ(pool.stats().workers, 0);
}

TEST(Supervisor, BadFramesAreCrashes) {
  Supervisor pool(Forks(), PoolOf(1));
  for (const char* job : {"babble", "lie", "mute"}) {
    const JobResult result = pool.Run({job, ""});
    EXPECT_EQ(result.outcome, JobResult::kCrashed) << job << " " << result.status;
    EXPECT_TRUE(result.quarantined) << job;
  }
  EXPECT_EQ(pool.stats().workers, 0);
  EXPECT_EQ(pool.Run({kEcho, "next"}).bytes, "next");
}

TEST(Supervisor, ExceptionsBecomeErrors) {
  Supervisor pool(Forks(), PoolOf(1));
  const JobResult result = pool.Run({"throw", ""});
  EXPECT_EQ(result.outcome, JobResult::kFailed);
  EXPECT_THAT(result.status.ToString(), HasSubstr("thrown"));
}

TEST(Supervisor, ALeakEndsAtTheLimitOfItsWorker) {
#ifdef UOPD_SANITIZED
  GTEST_SKIP() << "RLIMIT_AS does not go with sanitizers";
#endif
  Supervisor::Options options = PoolOf(1);
  options.setup.address_space_bytes = uint64_t{1} << 30;
  Supervisor pool(Forks(), options);
  const JobResult result = pool.Run({"leak", ""});
  EXPECT_EQ(result.outcome, JobResult::kFailed) << result.status;
  EXPECT_TRUE(absl::IsResourceExhausted(result.status));
  EXPECT_EQ(pool.stats().retired, 1);  // its heap is not to be trusted
  EXPECT_EQ(pool.Run({kEcho, "next"}).bytes, "next");
}

TEST(Supervisor, ReplacesAWorkerThatDiedIdle) {
  Supervisor pool(Forks(), PoolOf(1));
  const std::string first = pool.Run({"pid", ""}).bytes;
  ASSERT_EQ(kill(std::stoi(first), SIGKILL), 0);
  const JobResult second = pool.Run({"pid", ""});
  ASSERT_EQ(second.outcome, JobResult::kDone) << second.status;
  EXPECT_NE(second.bytes, first);
  EXPECT_EQ(pool.stats().lost_idle, 1);
  EXPECT_EQ(pool.quarantine().size(), 0);
}

TEST(Supervisor, RetiresWorkers) {
  Supervisor::Options options = PoolOf(1);
  options.setup.retire_after_jobs = 2;
  Supervisor pool(Forks(), options);
  std::vector<std::string> pids;
  for (int i = 0; i < 4; ++i) pids.push_back(pool.Run({"pid", Cat(i)}).bytes);
  EXPECT_EQ(pids[0], pids[1]);
  EXPECT_NE(pids[1], pids[2]);
  EXPECT_EQ(pids[2], pids[3]);
  EXPECT_EQ(pool.stats().retired, 2);
  EXPECT_EQ(pool.stats().spawned, 2);
}

TEST(Supervisor, RetiresAWorkerThatGrew) {
  Supervisor::Options options = PoolOf(1);
  options.setup.retire_above_rss_bytes = 1;
  Supervisor pool(Forks(), options);
  EXPECT_NE(pool.Run({"pid", ""}).bytes, pool.Run({"pid", "2"}).bytes);
}

TEST(Supervisor, WaitsForAWorkerAndGivesUp) {
  Supervisor pool(Forks(), PoolOf(1));
  std::atomic<bool> running{false}, stop{false};
  std::thread holder([&] {
    pool.Run({"hang", ""}, {.cancelled = [&] {
               running = pool.stats().workers == 1;
               return stop.load();
             }});
  });
  while (!running) std::this_thread::yield();
  EXPECT_EQ(pool.Run({kEcho, ""}, {.deadline = Clock::now()}).outcome, JobResult::kTimedOut);
  EXPECT_EQ(pool.Run({kEcho, ""}, {.cancelled = [] { return true; }}).outcome,
            JobResult::kCancelled);
  stop = true;
  EXPECT_EQ(pool.Run({kEcho, "after"}).bytes, "after");
  holder.join();
}

TEST(Supervisor, ServesManyThreads) {
  constexpr int kThreads = 6, kJobs = 40, kWorkers = 3;
  Supervisor::Options options = PoolOf(kWorkers);
  options.setup.retire_after_jobs = 15;
  Supervisor pool(Forks(), options);
  std::atomic<int> right{0}, crashed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) {
        const std::string text = Cat(t, " ", i);
        if (i % 10 == 9) {
          // Leading zeros: every job is another one to the quarantine.
          const Job job{"signal", Cat(std::string(t * kJobs + i, '0'), SIGABRT)};
          crashed += pool.Run(job).outcome == JobResult::kCrashed;
        } else {
          right += pool.Run({kEcho, text}).bytes == text;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(crashed, kThreads * kJobs / 10);
  EXPECT_EQ(right, kThreads * kJobs * 9 / 10);
  const SupervisorStats stats = pool.stats();
  EXPECT_LE(stats.workers, kWorkers);
  EXPECT_EQ(stats.idle, stats.workers);
  EXPECT_EQ(stats.spawned, stats.crashed + stats.retired + stats.workers);
}

TEST(Quarantine, IsBoundedAndKeepsTheFirstReason) {
  Quarantine quarantine(2);
  const Digest a = HashBytes("a"), b = HashBytes("b"), c = HashBytes("c");
  quarantine.Add({a, "first"});
  quarantine.Add({a, "second"});
  quarantine.Add({b, "b"});
  EXPECT_EQ(quarantine.Find(a)->reason, "first");
  quarantine.Add({c, "c"});
  EXPECT_EQ(quarantine.Find(a), std::nullopt);
  const std::vector<QuarantineEntry> want{{b, "b"}, {c, "c"}};
  EXPECT_EQ(quarantine.entries(), want);
  EXPECT_TRUE(quarantine.Remove(b));
  EXPECT_FALSE(quarantine.Remove(b));
  EXPECT_EQ(quarantine.size(), 1u);
}

TEST(Quarantine, EntriesWithALifeEnd) {
  Quarantine quarantine;
  const Quarantine::Clock::time_point begin{};
  const auto at = [&](int s) { return begin + std::chrono::seconds(s); };
  const Digest a = HashBytes("a");
  const QuarantineEntry passing{a, "killed", 0, std::chrono::seconds(10)}, lasting{a, "crashed"};
  quarantine.Add(passing, at(0));
  EXPECT_EQ(quarantine.Find(a, at(9)), passing);
  EXPECT_EQ(quarantine.Find(a, at(10)), std::nullopt);
  EXPECT_TRUE(quarantine.entries(at(10)).empty());
  quarantine.Add(passing, at(20));  // again, from then on
  EXPECT_EQ(quarantine.Find(a, at(29)), passing);
  quarantine.Add(lasting, at(29));
  EXPECT_EQ(quarantine.Find(a, at(99)), lasting);
}

// The code of an error cannot tell whose fault it is: this can.
TEST(Supervisor, StatusesSayWhetherTheJobIsToBlame) {
  Supervisor pool(Forks(), PoolOf(1));
  const auto blames = [&](const Job& job, const WorkLimits& limits = {}) {
    const auto answer = pool.Run(job, limits).ToStatusOr();
    EXPECT_FALSE(answer.ok());
    return IsJobsFault(answer.status());
  };
  for (const Job& job : {Job{"signal", Cat(SIGSEGV)}, Job{"hang", "", milliseconds(30)}}) {
    EXPECT_TRUE(blames(job));
    EXPECT_TRUE(blames(job)) << "in quarantine";
  }
  EXPECT_FALSE(blames({"fail", ""}));
  EXPECT_FALSE(blames({"hang", "of a caller"}, {.deadline = Clock::now() + milliseconds(30)}));
  const Job killed{"signal", Cat(SIGKILL)};
  EXPECT_FALSE(blames(killed)) << "by something outside";
  EXPECT_FALSE(blames(killed)) << "in quarantine for a while";
  EXPECT_TRUE(pool.Run({kEcho, "well"}).ToStatusOr().ok());
}

}  // namespace
}  // namespace uopd::worker
