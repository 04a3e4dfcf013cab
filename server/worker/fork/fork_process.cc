// SPDX-License-Identifier: MIT
#include "server/worker/fork/fork_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>

#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/pidfd.h"
#include "core/base/text.h"
#include "server/worker/fork/packet.h"
#include "server/worker/fork/process_state.h"

namespace uopd::worker {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status Lost() { return absl::UnavailableError("the fork server of the workers is gone"); }

int Ms(Clock::duration time) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

// posix_spawn with what a fork server needs: descriptor 0 reads nothing, 1 and 2 are stderr, its
// socket is kForkServerSocket, and nothing else is open. No signal is blocked. It has its own
// process group.
int SpawnServer(const std::string& program, int control, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, control, kForkServerSocket);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 2, 1);
  posix_spawn_file_actions_addclosefrom_np(&files, kForkServerSocket + 1);
  sigset_t none, reset;
  sigemptyset(&none);
  sigemptyset(&reset);
  sigaddset(&reset, SIGCHLD);  // an ignored SIGCHLD would discard the workers' statuses
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = "uopd-forks", flag = kForkServerFlag, parent = Cat(getpid());
  char* const arguments[] = {name.data(), flag.data(), parent.data(), nullptr};
  const int error = posix_spawn(pid, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

std::string Describe(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return name != nullptr ? Cat("SIG", name) : Cat("signal ", WTERMSIG(status));
  }
  return Cat("exit code ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ForkProcess>> ForkProcess::Launch(const std::string& program,
                                                                 Limits limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(Cat("socketpair: ", std::strerror(errno)));
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  pid_t pid = -1;
  if (const int error = SpawnServer(program, theirs.get(), &pid); error != 0) {
    return absl::UnavailableError(
        Cat("the fork server of the workers cannot be started: ", std::strerror(error)));
  }
  // Nobody else takes the status of this process, so the pid still belongs to it.
  UniqueFd pidfd(pidfd_open(pid, 0));
  if (!pidfd) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::UnavailableError(Cat("pidfd: ", std::strerror(error)));
  }
  return std::shared_ptr<ForkProcess>(
      new ForkProcess(pid, std::move(pidfd), std::move(ours), limits));
}

void ForkProcess::Kill() const { pidfd_send_signal(pidfd_.get(), SIGKILL, nullptr, 0); }

absl::StatusOr<Reply> ForkProcess::AwaitReply(int stop, UniqueFd& came) {
  const auto deadline = Clock::now() + limits_.request;
  StopWatch watch(pid_, limits_.look);
  for (;;) {
    pollfd fds[3] = {{control_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}, {stop, POLLIN, 0}};
    const int n = poll(fds, 3, Ms(limits_.look));
    if (n < 0 && errno != EINTR) break;
    if (n > 0 && fds[0].revents != 0) {
      Reply reply;
      const auto into = std::as_writable_bytes(std::span(&reply, 1));
      if (ReceivePacket(control_.get(), into, came, MSG_DONTWAIT) != sizeof reply) break;
      return reply;
    }
    if (n > 0 && fds[1].revents != 0) break;
    if (n > 0 && fds[2].revents != 0) return absl::CancelledError("the daemon stops");
    if (watch.SeesStopped() || Clock::now() >= deadline) break;
  }
  broken_ = true;
  Kill();
  return Lost();
}

absl::Status ForkProcess::AwaitHello(int stop) {
  MutexLock lock(mu_);
  UniqueFd none;
  UOPD_ASSIGN(const Reply reply, AwaitReply(stop, none));
  if (reply.value == kHello) return absl::OkStatus();
  broken_ = true;
  Kill();
  return absl::UnavailableError("the process started as fork server of the workers is not one");
}

absl::Status ForkProcess::Watch(int stop) {
  StopWatch watch(pid_, limits_.look);
  for (;;) {
    pollfd fds[2] = {{pidfd_.get(), POLLIN, 0}, {stop, POLLIN, 0}};
    const int n = poll(fds, 2, Ms(limits_.look));
    if (n > 0 && fds[1].revents != 0) return absl::CancelledError("the daemon stops");
    if (n > 0) return Lost();
    if (watch.SeesStopped()) Kill();
  }
}

std::string ForkProcess::Bury(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  // As long as nobody has waited for the process, no other group can have its number.
  kill(-pid_, SIGKILL);
  Kill();
  std::string how = "does not end";
  bool own = false;
  // If the kernel made this process the reaper of orphans, the workers are now its children.
  // Otherwise they are another process's children and are not found here.
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(own ? -pid_ : pid_, &status, WNOHANG);
    if (pid == pid_) {
      own = true;
      how = Describe(status);
      continue;
    }
    if (pid > 0) continue;
    if (pid < 0 && errno != EINTR) return how;
    if (Clock::now() >= deadline) return how;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::StatusOr<Reply> ForkProcess::Ask(std::span<const std::byte> request, int fd, UniqueFd& came) {
  MutexLock lock(mu_);
  if (broken_) return Lost();
  // The socket holds at most one request, so it has room for this one.
  if (SendPacket(control_.get(), request, fd, MSG_DONTWAIT) < 0) {
    broken_ = true;
    Kill();
    return Lost();
  }
  return AwaitReply(-1, came);
}

}  // namespace uopd::worker
