// SPDX-License-Identifier: MIT
#include "tests/support/services/child_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/support/stop_child.h"

namespace uopd::test {

void ChildProgram::Start(std::vector<std::string> words, std::string log,
                         const std::function<void()>& in_child) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  log_ = std::move(log);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const int out = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, 1);
  dup2(out, 2);
  if (in_child) in_child();
  execvp(argv[0], argv.data());
  _exit(127);
}

bool ChildProgram::Ended() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ <= 0;
}

void ChildProgram::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ChildProgram::Pause() const { StopChild(pid_); }

void ChildProgram::Continue() const { kill(pid_, SIGCONT); }

std::string ChildProgram::Said() const {
  std::ostringstream text;
  text << std::ifstream(log_).rdbuf();
  return text.str();
}

}  // namespace uopd::test
