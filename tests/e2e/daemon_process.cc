// SPDX-License-Identifier: MIT
#include "tests/e2e/daemon_process.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace uopd::e2e {
namespace {

constexpr std::chrono::seconds kStartLimit{60};

// The value of "key":"..." in one line of JSON without escapes.
std::string JsonText(const std::string& json, const std::string& key) {
  const std::string start = "\"" + key + "\":\"";
  const size_t begin = json.find(start);
  if (begin == std::string::npos) return {};
  const size_t from = begin + start.size();
  return json.substr(from, json.find('"', from) - from);
}

}  // namespace

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "uopd-e2e-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(path_, error);
}

DaemonProcess::DaemonProcess(const std::filesystem::path& folder, std::vector<std::string> flags)
    : folder_(folder) {
  std::filesystem::remove(folder_ / "ready.json");
  std::vector<std::string> args = {UOPD_BINARY,
                                   "--listen=127.0.0.1:0",
                                   "--http-listen=127.0.0.1:0",
                                   "--data-dir=" + (folder_ / "data").string(),
                                   "--ready-file=" + (folder_ / "ready.json").string(),
                                   "--log-file=" + (folder_ / "log").string()};
  args.insert(args.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    execv(argv[0], argv.data());
    _exit(127);
  }
  if (!AwaitReady()) {
    ADD_FAILURE() << "uopd did not start; its log: " << Log();
    pid_ = -1;
  }
}

bool DaemonProcess::AwaitReady() {
  const auto limit = std::chrono::steady_clock::now() + kStartLimit;
  while (std::chrono::steady_clock::now() < limit) {
    const std::string ready = ReadFile(folder_ / "ready.json");
    if (!ready.empty()) {
      listen_ = JsonText(ready, "listen");
      http_ = JsonText(ready, "http");
      return !listen_.empty();
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the file is there
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  return false;
}

DaemonProcess::~DaemonProcess() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void DaemonProcess::Signal(int signal) const {
  if (running()) kill(pid_, signal);
}

int DaemonProcess::Wait() {
  int status = 0;
  if (!running() || waitpid(pid_, &status, 0) != pid_) return -1000;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string DaemonProcess::Http(const std::string& path) const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(http_.substr(http_.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
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

double DaemonProcess::Metric(const std::string& series) const {
  const std::string page = Http("/metrics");
  const size_t at = page.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(page.substr(at + series.size() + 2));
}

std::string DaemonProcess::Log() const { return ReadFile(folder_ / "log"); }

}  // namespace uopd::e2e
