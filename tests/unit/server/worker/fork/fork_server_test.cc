// SPDX-License-Identifier: MIT
#include "server/worker/fork/fork_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "core/base/text.h"
#include "gtest/gtest.h"
#include "server/worker/fork/fork_loop.h"
#include "server/worker/frame_channel.h"
#include "server/worker/standard_jobs.h"
#include "tests/support/processes.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

constexpr int kSocket = 3;  // where a worker has its own
using Answer = absl::StatusOr<std::string>;

Answer Fds(WorkerState&, std::string_view) {
  std::vector<int> fds;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(dir)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(dir)) fds.push_back(fd);
  }
  closedir(dir);
  std::sort(fds.begin(), fds.end());
  std::string out;
  for (int fd : fds) Append(out, fd, " ");
  return out;
}

Answer Limits(WorkerState&, std::string_view) {
  rlimit core, space;
  getrlimit(RLIMIT_CORE, &core);
  getrlimit(RLIMIT_AS, &space);
  return Cat(core.rlim_cur, " ", space.rlim_cur);
}

Answer Nice(WorkerState&, std::string_view) { return Cat(getpriority(PRIO_PROCESS, 0)); }

Answer Spin(WorkerState&, std::string_view payload) {
  const double ms = atof(std::string(payload).c_str());
  const clock_t end = clock() + static_cast<clock_t>(ms * CLOCKS_PER_SEC / 1000);
  while (clock() < end) {
  }
  return std::string(payload);
}

Answer Hang(WorkerState&, std::string_view) {
  for (;;) pause();
}

Answer Signal(WorkerState&, std::string_view payload) {
  const int number = atoi(std::string(payload).c_str());
  signal(number, SIG_DFL);  // sanitizers handle some
  raise(number);
  return absl::InternalError("survived");
}

Answer Leak(WorkerState&, std::string_view) {
  std::vector<std::string> kept;
  for (;;) kept.emplace_back(size_t{16} << 20, 'x');
}

Answer Babble(WorkerState&, std::string_view) {
  const std::string noise(1000, '?');
  if (write(kSocket, noise.data(), noise.size()) < 0) return absl::InternalError("no socket");
  for (;;) pause();
}

Answer Lie(WorkerState&, std::string_view) {
  FrameChannel channel((UniqueFd(kSocket)));
  UOPD_TRY(channel.Send("Rlie", {}));
  for (;;) pause();
}

Answer Mute(WorkerState&, std::string_view) {
  close(kSocket);
  for (;;) pause();
}

std::vector<JobHandler> TestJobs() {
  std::vector<JobHandler> out = StandardJobs();
  const JobHandler more[] = {
      {kEcho, [](WorkerState&, std::string_view p) -> Answer { return std::string(p); }},
      {"fail", [](WorkerState&, std::string_view) -> Answer { return absl::NotFoundError("no"); }},
      {"pid", [](WorkerState&, std::string_view) -> Answer { return Cat(getpid()); }},
      {"exit",
       [](WorkerState&, std::string_view p) -> Answer { _exit(atoi(std::string(p).c_str())); }},
      {"throw",
       [](WorkerState&, std::string_view) -> Answer { throw std::runtime_error("thrown"); }},
      {"fds", Fds},
      {"limits", Limits},
      {"hang", Hang},
      {"signal", Signal},
      {"leak", Leak},
      {"babble", Babble},
      {"lie", Lie},
      {"mute", Mute},
      {"nice", Nice},
      {"spin", Spin},
      {kGpu, MeasureOnFakeGpu},
  };
  out.insert(out.end(), std::begin(more), std::end(more));
  return out;
}

std::unique_ptr<ForkServer> forks;

ForkServer::Options Hasty() {
  ForkServer::Options out;
  out.look = std::chrono::milliseconds(20);
  return out;
}

WorkLimits InTwentySeconds() {
  return {std::chrono::steady_clock::now() + std::chrono::seconds(20), nullptr};
}

bool EndsSoon(int pidfd) {
  pollfd fd{pidfd, POLLIN, 0};
  return poll(&fd, 1, 10'000) == 1;
}

// One job over the bare protocol.
absl::StatusOr<std::string> RunOn(SpawnedWorker& worker, std::string_view job,
                                  std::string_view payload) {
  FrameChannel channel(UniqueFd(fcntl(worker.socket.get(), F_DUPFD_CLOEXEC, 0)));
  const WorkLimits limits{std::chrono::steady_clock::now() + std::chrono::seconds(20)};
  UOPD_TRY(channel.Send(EncodeJob(job, payload), limits));
  UOPD_ASSIGN(const std::string accepted, channel.Receive(limits));
  EXPECT_EQ(accepted, std::string(1, kAccepted));
  UOPD_ASSIGN(const std::string frame, channel.Receive(limits));
  UOPD_ASSIGN(JobAnswer answer, DecodeAnswer(frame));
  return answer.result;
}

TEST(ForkServer, WorkersHaveNoDescriptorsButTheirOwn) {
  auto first = Forks().Spawn({}), second = Forks().Spawn({});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(RunOn(*second, "fds", "").value(), "0 1 2 3 ");
}

TEST(ForkServer, AppliesLimits) {
  WorkerSetup setup;
  setup.address_space_bytes = uint64_t{3} << 30;
  auto worker = Forks().Spawn(setup);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const std::string limits = RunOn(*worker, "limits", "").value();
#ifdef UOPD_SANITIZED
  EXPECT_EQ(limits.rfind("0 ", 0), 0) << limits;
#else
  EXPECT_EQ(limits, Cat("0 ", uint64_t{3} << 30));
#endif
}

TEST(ForkServer, ReapsAWorkerThatLostItsSupervisor) {
  auto worker = Forks().Spawn({});
  ASSERT_TRUE(worker.ok());
  worker->socket.Reset();
  const auto status = Forks().Reap(*worker, std::chrono::seconds(10));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  EXPECT_TRUE(absl::IsNotFound(Forks().Reap(*worker, std::chrono::seconds(1)).status()));
}

TEST(ForkServer, ReapGivesUpOnALivingWorker) {
  auto worker = Forks().Spawn({});
  ASSERT_TRUE(worker.ok());
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(Forks().Reap(*worker, std::chrono::milliseconds(1)).status()));
  EXPECT_EQ(RunOn(*worker, kEcho, "alive").value(), "alive");
}

TEST(ForkServer, SignalsForTheDaemonDoNotReachWorkers) {
  auto worker = Forks().Spawn({});
  ASSERT_TRUE(worker.ok());
  ASSERT_EQ(RunOn(*worker, kEcho, "up").value(), "up");
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ASSERT_EQ(kill(worker->pid, signal), 0);
  EXPECT_EQ(RunOn(*worker, kEcho, "still").value(), "still");
}

TEST(ForkServer, NiceIsAddedToItsOwn) {
  WorkerSetup setup;
  setup.nice = 7;
  auto worker = Forks().Spawn(setup);
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(RunOn(*worker, "nice", "").value(),
            Cat(std::min(getpriority(PRIO_PROCESS, 0) + 7, 19)));
}

TEST(ForkServer, IsReplacedWhenItDies) {
  const auto doomed = ForkServer::Start(Hasty()).value();
  auto worker = doomed->Spawn({}, InTwentySeconds());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const pid_t first = doomed->pid();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_TRUE(EndsSoon(worker->pidfd.get()));  // with it
  auto next = doomed->Spawn({}, InTwentySeconds());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(RunOn(*next, kEcho, "new").value(), "new");
  EXPECT_NE(doomed->pid(), first);
  EXPECT_EQ(doomed->restarts(), 1u);
  EXPECT_EQ(doomed->Unready(), "");
  EXPECT_TRUE(absl::IsUnavailable(doomed->Reap(*worker, std::chrono::seconds(5)).status()));
  EXPECT_FALSE(test::IsAlive(worker->pid));
}

TEST(ForkServer, IsReplacedWhenItIsStopped) {
  const auto doomed = ForkServer::Start(Hasty()).value();
  ASSERT_TRUE(doomed->AwaitUp(InTwentySeconds()).ok());
  ASSERT_EQ(kill(doomed->pid(), SIGSTOP), 0);
  EXPECT_TRUE(doomed->Spawn({}, InTwentySeconds()).ok());
  EXPECT_EQ(doomed->restarts(), 1u);
}

TEST(ForkServer, IsReplacedWhenNobodyAsks) {
  const auto doomed = ForkServer::Start(Hasty()).value();
  ASSERT_TRUE(doomed->AwaitUp(InTwentySeconds()).ok());
  ASSERT_EQ(kill(doomed->pid(), SIGSTOP), 0);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (doomed->restarts() == 0 && std::chrono::steady_clock::now() < limit) sched_yield();
  EXPECT_TRUE(doomed->AwaitUp(InTwentySeconds()).ok());
}

TEST(ForkServer, EndsWhileStoppedAndLeavesNothing) {
  auto doomed = ForkServer::Start().value();
  auto worker = doomed->Spawn({}, InTwentySeconds());
  ASSERT_TRUE(worker.ok());
  const pid_t pid = doomed->pid();
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  ASSERT_EQ(kill(worker->pid, SIGSTOP), 0);
  doomed.reset();
  for (const test::Process& process : test::Descendants(getpid())) {
    EXPECT_TRUE(process.pid != pid && process.pid != worker->pid) << process.name << process.state;
  }
}

TEST(ForkServer, SaysWhyThereIsNone) {
  ForkServer::Options options = Hasty();
  options.program = "/does/not/exist";
  options.await_limit = std::chrono::milliseconds(50);
  const auto none = ForkServer::Start(options).value();
  const auto worker = none->Spawn({});
  EXPECT_TRUE(absl::IsUnavailable(worker.status())) << worker.status();
  EXPECT_NE(none->Unready().find("No such file"), std::string::npos) << none->Unready();
  EXPECT_EQ(none->pid(), -1);
}

void StartByHand() {
  char name[] = "uopd", flag[] = "--fork-server", parent[] = "1";
  char* args[] = {name, flag, parent, nullptr};
  BecomeForkServer(3, args, {});
}

TEST(ForkServer, APersonWhoStartsOneIsTold) {
  EXPECT_EXIT(StartByHand(), ::testing::ExitedWithCode(2), "is for a daemon");
}

}  // namespace

ForkServer& Forks() { return *forks; }

}  // namespace uopd::worker

int main(int argc, char** argv) {
  uopd::worker::BecomeForkServer(argc, argv, uopd::worker::TestJobs());
  testing::InitGoogleTest(&argc, argv);
  const int leaked = open("/dev/null", O_RDONLY);  // inheritable: the fork server must close it
  uopd::worker::forks = uopd::worker::ForkServer::Start().value();
  const int rc = RUN_ALL_TESTS();
  close(leaked);
  uopd::worker::forks.reset();
  return rc;
}
