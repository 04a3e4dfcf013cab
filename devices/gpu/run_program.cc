// SPDX-License-Identifier: MIT
#include "devices/gpu/run_program.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/unique_fd.h"

extern char** environ;

namespace uopd::devices::gpu {
namespace {

absl::Status DoesNotStart(const std::string& program, int error) {
  return absl::UnavailableError(
      absl::StrCat("The program ", program, " does not start: ", std::strerror(error)));
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return lseek(fd, 0, SEEK_SET) == 0;
}

std::string ReadAll(int fd) {
  std::string out;
  char part[4096];
  for (off_t at = 0;;) {
    const ssize_t n = pread(fd, part, sizeof part, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    out.append(part, static_cast<size_t>(n));
    at += n;
  }
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(const std::string& program,
                                      const std::vector<std::string>& arguments,
                                      std::string_view input) {
  // Files in memory: neither side waits for the other.
  const UniqueFd in(memfd_create("input", MFD_CLOEXEC));
  const UniqueFd out(memfd_create("output", MFD_CLOEXEC));
  const UniqueFd errors(memfd_create("errors", MFD_CLOEXEC));
  if (!in || !out || !errors || !WriteAll(in.get(), input)) return DoesNotStart(program, errno);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return DoesNotStart(program, error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return DoesNotStart(program, errno);
  }
  ProgramEnd end;
  end.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  end.output = ReadAll(out.get());
  end.errors = ReadAll(errors.get());
  return end;
}

}  // namespace uopd::devices::gpu
