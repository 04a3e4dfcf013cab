// SPDX-License-Identifier: MIT
#include "tests/support/redis/redis_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/status/status.h"
#include "cache/redis/redis_connection.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/support/services/certificates.h"
#include "tests/support/services/free_port.h"

namespace uopd::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisProcess>> RedisProcess::Start(const RedisOptions& options) {
  std::unique_ptr<RedisProcess> out(new RedisProcess);
  out->options_ = options;
  std::string name = (std::filesystem::temp_directory_path() / "uopd-redis-XXXXXX").string();
  out->folder_ = mkdtemp(name.data());
  if (options.tls) UOPD_TRY(MakeCertificates(out->folder_));
  absl::Status status;
  for (int attempt = 0; attempt < 3; ++attempt) {  // somebody else may take the port
    out->port_ = FreePort();
    status = out->Spawn();
    if (status.ok()) return out;
  }
  return status;
}

absl::Status RedisProcess::Spawn() {
  std::vector<std::string> words = {options_.program,
                                    "--unixsocket",
                                    socket(),
                                    "--save",
                                    "",
                                    "--appendonly",
                                    "no",
                                    "--dir",
                                    folder_,
                                    "--bind",
                                    "127.0.0.1",
                                    options_.tls ? "--tls-port" : "--port",
                                    Cat(port_)};
  if (options_.sentinel_of != 0) {
    const std::string file = folder_ + "/sentinel.conf";  // sentinels rewrite it
    std::ofstream(file) << "port " << port_ << "\nbind 127.0.0.1\nunixsocket " << socket()
                        << "\ndir " << folder_ << "\nsentinel monitor main 127.0.0.1 "
                        << options_.sentinel_of << " 1\n";
    words = {options_.program, file, "--sentinel"};
  }
  if (options_.tls) {
    words.insert(words.end(), {"--port", "0", "--tls-cert-file", folder_ + "/cert.pem",
                               "--tls-key-file", folder_ + "/key.pem", "--tls-ca-cert-file",
                               ca_file(), "--tls-auth-clients", "optional"});
  }
  words.insert(words.end(), options_.flags.begin(), options_.flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = folder_ + "/redis.log";
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (steady_clock::now() < deadline) {
    const auto soon = steady_clock::now() + std::chrono::seconds(2);
    auto transport = cache::Transport::ConnectUnix(socket(), soon);
    if (transport.ok()) {
      // A server that wants a password says so, and with that it answers.
      const auto login = cache::RedisConnection::Login(*std::move(transport), {}, soon);
      if (login.ok() || absl::IsUnauthenticated(login.status())) return absl::OkStatus();
    }
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      break;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  Kill();
  return absl::UnavailableError(Cat(options_.program, " does not serve: ", TextOf(log)));
}

void RedisProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RedisProcess::Pause() { kill(pid_, SIGSTOP); }

void RedisProcess::Continue() { kill(pid_, SIGCONT); }

absl::Status RedisProcess::Restart() {
  Kill();
  return Spawn();
}

RedisProcess::~RedisProcess() {
  Kill();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

}  // namespace uopd::test
