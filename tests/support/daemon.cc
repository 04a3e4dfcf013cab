// SPDX-License-Identifier: MIT
#include "tests/support/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/base/text.h"

namespace uopd::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The text value of a key in the one-line JSON of the ready file.
std::string Field(const std::string& json, const std::string& key) {
  const std::string open = "\"" + key + "\":\"";
  const size_t begin = json.find(open);
  if (begin == std::string::npos) return "";
  return json.substr(begin + open.size(),
                     json.find('"', begin + open.size()) - begin - open.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options) {
  std::unique_ptr<Daemon> d(new Daemon);
  d->data_dir_ = options.data_dir;
  if (d->data_dir_.empty()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "uopd-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      return absl::InternalError("cannot make a temporary folder");
    d->data_dir_ = pattern;
    d->owns_data_dir_ = true;
  }
  const std::string ready = d->data_dir_ + ".ready";
  d->log_path_ = d->data_dir_ + ".log";
  std::filesystem::remove(ready);
  std::vector<std::string> args = {options.program, "--listen",     "127.0.0.1:0",
                                   "--http-listen", "127.0.0.1:0",  "--data-dir",
                                   d->data_dir_,    "--ready-file", ready};
  args.insert(args.end(), options.flags.begin(), options.flags.end());
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  d->pid_ = fork();
  if (d->pid_ < 0) return absl::InternalError("cannot fork");
  if (d->pid_ == 0) {
    const int log = open(d->log_path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
    dup2(log, 1);
    dup2(log, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline && d->Running()) {
    const std::string json = ReadFile(ready);
    if (json.find('\n') != std::string::npos) {
      d->address_ = Field(json, "listen"), d->http_address_ = Field(json, "http");
      return d;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return absl::UnavailableError(
      Cat("daemon ", options.program, " does not serve; its log:\n", d->Log()));
}

Daemon::~Daemon() {
  Stop(SIGKILL);
  std::error_code ignored;
  std::filesystem::remove(data_dir_ + ".ready", ignored);
  std::filesystem::remove(log_path_, ignored);
  if (owns_data_dir_) std::filesystem::remove_all(data_dir_, ignored);
}

bool Daemon::Running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string Daemon::Log() const {
  const std::string log = ReadFile(log_path_);
  constexpr size_t kEnd = 4000;
  return log.size() > kEnd ? log.substr(log.size() - kEnd) : log;
}

int Daemon::Stop(int signal) {
  if (pid_ <= 0) return 0;
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace uopd::testing
