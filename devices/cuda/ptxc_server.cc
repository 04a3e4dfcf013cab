// SPDX-License-Identifier: MIT
#include "devices/cuda/ptxc_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "devices/cuda/ptxc/pipe_io.h"

extern char** environ;

namespace uopd::devices::cuda {
namespace {

constexpr uint64_t kMostBytes = 256 << 20;  // of an answer
constexpr uint32_t kSignalled = 128;  // status of a text that ends its program, less the signal

// A stream of Unix, since a write to one whose reader has ended needs no signal.
bool SendAll(int fd, const void* data, size_t bytes) {
  return WriteFully(data, bytes,
                    [fd](const char* at, size_t n) { return send(fd, at, n, MSG_NOSIGNAL); });
}

}  // namespace

PtxcServer::~PtxcServer() {
  MutexLock lock(mu_);
  End();
}

absl::Status PtxcServer::Start() {
  const auto fails = [this](int error) {
    return absl::UnavailableError(
        absl::StrCat("The program ", program_, " does not start: ", std::strerror(error)));
  };
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return fails(errno);
  const UniqueFd in_there(in[1]);
  to_.Reset(in[0]);
  if (pipe2(out, O_CLOEXEC) != 0) return fails(errno);
  const UniqueFd out_there(out[1]);
  from_.Reset(out[0]);
  char* const argv[] = {const_cast<char*>(program_.c_str()), const_cast<char*>(arch_.c_str()),
                        nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_there.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_there.get(), STDOUT_FILENO);
  const int error = posix_spawn(&pid_, program_.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return fails(error);
}

int PtxcServer::End() {
  to_.Reset();
  from_.Reset();
  if (pid_ < 0) return 0;
  kill(pid_, SIGKILL);  // changes nothing for a program that has ended
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!WIFSIGNALED(status)) return 0;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGTERM ? 0 : signal;
}

bool PtxcServer::Exchange(std::string_view text, Answer& answer) {
  uint64_t bytes = text.size();
  if (!SendAll(to_.get(), &bytes, sizeof bytes) || !SendAll(to_.get(), text.data(), text.size()) ||
      !ReadFully(from_.get(), &answer.status, sizeof answer.status) ||
      !ReadFully(from_.get(), &bytes, sizeof bytes) || bytes > kMostBytes) {
    return false;
  }
  answer.bytes.resize(bytes);
  return ReadFully(from_.get(), answer.bytes.data(), bytes);
}

absl::StatusOr<PtxcServer::Answer> PtxcServer::Compile(std::string_view text) {
  MutexLock lock(mu_);
  // A program that was ended while nobody used it is started again.
  for (const bool fresh : {pid_ < 0, true}) {
    if (fresh) {
      End();
      UOPD_TRY(Start());
    }
    Answer answer;
    if (Exchange(text, answer)) return answer;
    const int signal = End();
    if (!fresh) continue;
    if (signal == 0) break;
    return Answer{kSignalled + static_cast<uint32_t>(signal),
                  absl::StrCat("It crashed with signal ", signal)};
  }
  return absl::UnavailableError(absl::StrCat("The program ", program_, " ends without an answer"));
}

}  // namespace uopd::devices::cuda
