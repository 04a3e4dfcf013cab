// SPDX-License-Identifier: MIT
// A real Prometheus scrapes the daemon and answers queries about it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include "core/base/text.h"
#include "tests/e2e/daemon_process.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using test::Eventually;

constexpr char kPrometheus[] = "/usr/bin/prometheus";

std::string Fetch(const std::string& url) {
  std::string out;
  FILE* pipe = popen(("curl -s --max-time 2 '" + url + "'").c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.append(buffer.data(), n);
  }
  pclose(pipe);
  return out;
}

// A loopback address that was free a moment ago. Prometheus does not report the port that it gets
// for port 0.
std::string FreeAddress() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  bind(fd, reinterpret_cast<sockaddr*>(&at), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  close(fd);
  return Cat("127.0.0.1:", ntohs(at.sin_port));
}

TEST(PrometheusTest, ScrapesAndAnswers) {
  ASSERT_EQ(access(kPrometheus, X_OK), 0) << "deploy/install-deps --tests installs it";
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string dir = folder.path().string();
  const std::string log = Cat(dir, "/prometheus.log");
  std::ofstream(dir + "/prometheus.yml")
      << "scrape_configs:\n- job_name: uopd\n  scrape_interval: 1s\n"
         "  static_configs:\n  - targets: ['"
      << daemon.http() << "']\n";
  const std::string address = FreeAddress();
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string command = Cat("exec ", kPrometheus, " --config.file=", dir,
                                    "/prometheus.yml --storage.tsdb.path=", dir,
                                    "/tsdb --web.listen-address=", address, " > ", log, " 2>&1");
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string answer;
  const bool scraped = Eventually([&] {
    answer = Fetch("http://" + address + "/api/v1/query?query=uopd_kernels_compiled_total");
    return answer.find("\"value\"") != std::string::npos;
  });
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(scraped) << "address " << address << " answer " << answer << "\n" << ReadFile(log);
}

}  // namespace
}  // namespace uopd::e2e
