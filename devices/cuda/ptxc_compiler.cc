// SPDX-License-Identifier: MIT
#include "devices/cuda/ptxc_compiler.h"

#include <unistd.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "devices/cuda/ptxc/pipe_io.h"
#include "devices/gpu/diagnostic.h"
#include "devices/gpu/run_program.h"

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

std::string PtxcProgram() {
  if (const char* file = std::getenv("UOPD_PTXC"); file != nullptr && *file != 0) return file;
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
  return path.substr(0, path.rfind('/') + 1) + "uopd-ptxc";
}

absl::StatusOr<std::shared_ptr<const PtxcCompiler>> PtxcCompiler::Create(const std::string& program,
                                                                         const std::string& arch) {
  UOPD_ASSIGN(const gpu::ProgramEnd end, gpu::RunProgram(program, {"--version"}, ""));
  if (end.exit_status != 0 || end.output.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "The program ", program, " does not tell its version (exit status ", end.exit_status, ")"));
  }
  std::string toolchain = absl::StrCat(kToolchainPrefix, end.output, ";arch=", arch, ";O3");
  return std::shared_ptr<const PtxcCompiler>(new PtxcCompiler(program, arch, std::move(toolchain)));
}

absl::StatusOr<std::shared_ptr<const PtxcCompiler>> PtxcCompiler::OfToolchain(
    const std::string& program, const std::string& toolchain) {
  constexpr std::string_view kField = ";arch=";
  const size_t at = toolchain.find(kField), end = toolchain.find(';', at + 1);
  if (at == std::string::npos || end == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("No uopd-ptxc has the toolchain ", toolchain));
  }
  const size_t begin = at + kField.size();
  UOPD_ASSIGN(auto compiler, Create(program, toolchain.substr(begin, end - begin)));
  if (compiler->toolchain() != toolchain) {
    return absl::FailedPreconditionError(absl::StrCat("the toolchain here (", compiler->toolchain(),
                                                      ") is not the one asked for (", toolchain,
                                                      ")"));
  }
  return compiler;
}

absl::StatusOr<std::string> PtxcCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  UOPD_ASSIGN(PtxcServer::Answer answer, server_.Compile(source));
  if (answer.status != 0 || answer.bytes.empty()) {
    return gpu::DoesNotCompile(absl::StrCat("uopd-ptxc (status ", answer.status, ")"), answer.bytes,
                               source);
  }
  return std::move(answer.bytes);
}

}  // namespace uopd::devices::cuda
