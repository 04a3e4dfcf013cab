// SPDX-License-Identifier: MIT
#include "tests/perf/peers/peer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/text.h"

namespace uopd::perf {
namespace {

std::string PeersPython() {
  if (const char* path = std::getenv("UOPD_PEERS_PYTHON")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr ? cache : Cat(home != nullptr ? home : "", "/.cache");
  return Cat(base, "/uopd/peers/bin/python");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> PeerProcess::Start(
    const std::string& script, const std::vector<std::string>& arguments, Python which) {
  const std::string python = which == Python::kPeers ? PeersPython() : "/usr/bin/python3";
  std::vector<std::string> words = {python, UOPD_SOURCE_DIR "/tests/perf/peers/" + script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (access(python.c_str(), X_OK) != 0)
    return absl::UnavailableError(Cat(python, " is missing: run deploy/install-deps --peers"));
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
    return absl::InternalError("cannot make a pipe");
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError("cannot fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  signal(SIGPIPE, SIG_IGN);  // an ended process is an error of Ask
  return std::unique_ptr<PeerProcess>(
      new PeerProcess(pid, fdopen(to[1], "w"), fdopen(from[0], "r")));
}

PeerProcess::~PeerProcess() {
  std::fclose(to_);
  std::fclose(from_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

absl::StatusOr<std::string> PeerProcess::Ask(const std::string& line) {
  std::string out;
  if (std::fputs((line + "\n").c_str(), to_) >= 0 && std::fflush(to_) == 0) {
    for (int c; (c = std::fgetc(from_)) != EOF && c != '\n';) out += static_cast<char>(c);
  }
  if (out.empty()) return absl::UnavailableError(Cat("the peers do not answer (", line, ")"));
  return out;
}

}  // namespace uopd::perf
