// SPDX-License-Identifier: MIT
#include "tests/support/daemon.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/base/text.h"

namespace uopd::test {
namespace {

constexpr std::chrono::seconds kStartLimit{60};

// The text value of a key in the one-line JSON of the ready file.
std::string Field(const std::string& json, const std::string& key) {
  const std::string open = "\"" + key + "\":\"";
  const size_t begin = json.find(open);
  if (begin == std::string::npos) return "";
  return json.substr(begin + open.size(),
                     json.find('"', begin + open.size()) - begin - open.size());
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  UOPD_TRY(daemon->Spawn(options));
  UOPD_TRY(daemon->AwaitReady());
  return daemon;
}

absl::Status Daemon::Spawn(const DaemonOptions& options) {
  folder_ = options.folder;
  if (folder_.empty()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "uopd-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::InternalError("cannot make a temporary folder");
    }
    folder_ = pattern;
    owns_folder_ = true;
  }
  std::filesystem::remove(folder_ + "/ready.json");
  std::vector<std::string> args = {options.program,
                                   "--listen=127.0.0.1:0",
                                   "--http-listen=127.0.0.1:0",
                                   "--data-dir=" + folder_ + "/data",
                                   "--ready-file=" + folder_ + "/ready.json",
                                   "--log-file=" + folder_ + "/log"};
  args.insert(args.end(), options.flags.begin(), options.flags.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::vector<std::string> groups;
  for (const std::string& folder : options.groups) groups.push_back(folder + "/cgroup.procs");
  pid_ = fork();
  if (pid_ < 0) return absl::InternalError("cannot fork");
  if (pid_ == 0) {
    // A test that crashes takes its daemon along: it holds the test's output open otherwise.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const std::string& procs : groups) {
      const int file = open(procs.c_str(), O_WRONLY | O_CLOEXEC);
      if (file < 0 || write(file, "0", 1) != 1) _exit(126);
    }
    if (options.group_namespace && unshare(CLONE_NEWCGROUP) != 0) _exit(125);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return absl::OkStatus();
}

absl::Status Daemon::AwaitReady() {
  const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  while (std::chrono::steady_clock::now() < deadline && Running()) {
    const std::string ready = ReadFile(folder_ + "/ready.json");
    if (ready.find('\n') != std::string::npos) {
      address_ = Field(ready, "listen");
      http_address_ = Field(ready, "http");
      return absl::OkStatus();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the file is there
  }
  const std::string log = Log();
  constexpr size_t kEnd = 4000;
  return absl::UnavailableError(Cat("daemon does not serve; its log:\n",
                                    log.substr(log.size() - std::min(kEnd, log.size()))));
}

Daemon::~Daemon() {
  Signal(SIGKILL);
  Wait();
  std::error_code ignored;
  if (owns_folder_) std::filesystem::remove_all(folder_, ignored);
}

bool Daemon::Running() {
  if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1, ended_ = true;
  return pid_ > 0;
}

void Daemon::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

int Daemon::Wait() {
  if (pid_ > 0 && waitpid(pid_, &status_, 0) == pid_) pid_ = -1, ended_ = true;
  if (!ended_) return -1000;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

std::string Daemon::Http(const std::string& path, const std::string& accept) const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const std::string port = http_address_.substr(http_address_.rfind(':') + 1);
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port.c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string header = accept.empty() ? "" : "Accept: " + accept + "\r\n";
    const std::string request = "GET " + path + " HTTP/1.0\r\n" + header + "\r\n";
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      char chunk[4096];
      for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;) {
        out.append(chunk, static_cast<size_t>(n));
      }
    }
  }
  close(fd);
  return out;
}

double Daemon::Metric(const std::string& series) const {
  const std::string page = Http("/metrics");
  const size_t at = page.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(page.c_str() + at + series.size() + 2);
}

std::string Daemon::Log() const { return ReadFile(folder_ + "/log"); }

}  // namespace uopd::test
