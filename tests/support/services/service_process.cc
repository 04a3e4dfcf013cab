// SPDX-License-Identifier: MIT
#include "tests/support/services/service_process.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/support/services/free_port.h"

namespace uopd::test {
namespace {

const char* MaybeServices() { return std::getenv("UOPD_SERVICES"); }

bool Listens(uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

constexpr char kBuildGrid[] = R"(
server:
  - !channel
    address: 127.0.0.1:$PORT
    insecure-mode: true
description: a cache
authorization:
  method: none
monitoring:
  enabled: false
instances:
  - name: uopd
    storages:
      - !lru-storage &blobs
        size: 256M
    caches:
      - !lru-action-cache &results
        storage: *blobs
        max-cached-refs: 100000
        allow-updates: true
    services:
      - !cas
        storage: *blobs
      - !bytestream
        storage: *blobs
      - !action-cache
        cache: *results
thread-pool-size: 20
)";

}  // namespace

bool HasServices() { return MaybeServices() != nullptr; }

absl::StatusOr<std::unique_ptr<ServiceProcess>> ServiceProcess::Start(const Command& command,
                                                                      Environment environment) {
  std::unique_ptr<ServiceProcess> out(new ServiceProcess);
  out->command_ = command;
  out->environment_ = std::move(environment);
  std::string name = (std::filesystem::temp_directory_path() / "uopd-service-XXXXXX").string();
  out->folder_ = mkdtemp(name.data());
  absl::Status status;
  for (int attempt = 0; attempt < 3; ++attempt) {  // somebody else may take the port
    out->port_ = FreePort();
    status = out->Spawn();
    if (status.ok()) return out;
  }
  return status;
}

absl::StatusOr<std::unique_ptr<ServiceProcess>> ServiceProcess::StartBuildGrid() {
  return Start([](const std::string& folder, uint16_t port) -> std::vector<std::string> {
    std::string text = kBuildGrid;
    text.replace(text.find("$PORT"), 5, Cat(port));
    std::ofstream(folder + "/config.yml") << text;
    return {"bgd", "server", "start", folder + "/config.yml"};
  });
}

absl::Status ServiceProcess::Spawn() {
  std::vector<std::string> words = command_(folder_, port_);
  words[0] = Cat(MaybeServices(), "/bin/", words[0]);
  child_.Start(words, folder_ + "/service.log", [this] {
    // The libraries of the tests (tests/run) are none of Python's business.
    unsetenv("LD_LIBRARY_PATH");
    for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline && !child_.Ended()) {
    if (Listens(port_)) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  child_.Kill();
  return absl::UnavailableError(Cat(words[0], " does not serve: ", child_.Said()));
}

absl::Status ServiceProcess::Restart() {
  child_.Kill();
  return Spawn();
}

ServiceProcess::~ServiceProcess() {
  child_.Kill();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

}  // namespace uopd::test
