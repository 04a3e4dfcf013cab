// SPDX-License-Identifier: MIT
#include "tests/support/redis/redis_process.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
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
  child_.Start(words, folder_ + "/redis.log");
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (steady_clock::now() < deadline && !child_.Ended()) {
    const auto soon = steady_clock::now() + std::chrono::seconds(2);
    auto transport = cache::Transport::ConnectUnix(socket(), soon);
    if (transport.ok()) {
      // A server that wants a password says so, and with that it answers.
      const auto login = cache::RedisConnection::Login(*std::move(transport), {}, soon);
      if (login.ok() || absl::IsUnauthenticated(login.status())) return absl::OkStatus();
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  child_.Kill();
  return absl::UnavailableError(Cat(options_.program, " does not serve: ", child_.Said()));
}

std::string RedisProcess::Ask(const std::string& command) const {
  const std::string line = Cat("redis-cli -s ", socket(), " ", command, " 2>&1");
  std::string out;
  FILE* const pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

absl::Status RedisProcess::Restart() {
  child_.Kill();
  return Spawn();
}

RedisProcess::~RedisProcess() {
  child_.Kill();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

}  // namespace uopd::test
