// SPDX-License-Identifier: MIT
#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/strings/numbers.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace uopd {
namespace {

// A manager that does not read must not hold the daemon.
constexpr timeval kSendLimit{.tv_sec = 5, .tv_usec = 0};
// Added to the longest time of an end, so that the daemon's own limit comes first.
constexpr std::chrono::seconds kMargin{5};

std::optional<std::string> TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string out = value;
  unsetenv(name);
  return out;
}

int64_t NumberOf(const std::optional<std::string>& text) {
  int64_t value = 0;
  return text && absl::SimpleAtoi(*text, &value) ? value : 0;
}

// `status` has one line.
std::string StatusLine(std::string_view status) { return Cat("STATUS=", status, "\n"); }

}  // namespace

std::unique_ptr<ServiceManager> ServiceManager::FromEnvironment(bool mute) {
  std::unique_ptr<ServiceManager> out(new ServiceManager);
  const auto socket = TakeVariable("NOTIFY_SOCKET");
  const int64_t watchdog = NumberOf(TakeVariable("WATCHDOG_USEC"));
  const auto pid = TakeVariable("WATCHDOG_PID");
  if (mute || !socket || socket->empty()) return out;
  if ((socket->front() != '/' && socket->front() != '@') ||
      socket->size() >= sizeof(sockaddr_un::sun_path)) {
    UOPD_LOG(kWarn, "the variable NOTIFY_SOCKET names no socket", {"value", *socket});
    return out;
  }
  out->socket_ = *socket;
  if (socket->front() == '@') out->socket_.front() = '\0';
  if (watchdog > 0 && (!pid || NumberOf(pid) == getpid()))
    out->watchdog_ = std::chrono::microseconds(watchdog);
  return out;
}

ServiceManager::~ServiceManager() { EndSigns(); }

void ServiceManager::EndSigns() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
  if (signs_.joinable()) signs_.join();
}

void ServiceManager::Tell(const std::string& lines) const {
  if (socket_.empty()) return;
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  const ssize_t sent = sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), size);
  if (sent == static_cast<ssize_t>(lines.size())) return;
  UOPD_LOG(kWarn, "the service manager was not told", {"lines", lines},
           {"error", std::strerror(errno)});
}

void ServiceManager::Ready(std::string_view status) { Tell(StatusLine(status) + "READY=1\n"); }

void ServiceManager::Reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t us = int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  Tell(Cat("RELOADING=1\nMONOTONIC_USEC=", us, "\n"));
}

void ServiceManager::Stopping(std::string_view status, std::chrono::milliseconds longest) {
  EndSigns();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(longest + kMargin).count();
  // The daemon ends itself in that time, so no sign of life is wanted before.
  Tell(Cat("STOPPING=1\n", StatusLine(status), "EXTEND_TIMEOUT_USEC=", us, "\n",
           watchdog_.count() > 0 ? Cat("WATCHDOG_USEC=", us, "\n") : ""));
}

void ServiceManager::KeepAlive(std::function<void()> alive) {
  if (socket_.empty() || watchdog_.count() == 0) return;
  signs_ = std::thread([this, alive = std::move(alive)] {
    for (;;) {
      {
        MutexLock lock(mu_);
        if (lock.WaitUntil(changed_, std::chrono::steady_clock::now() + watchdog_ / 2,
                           [&]() UOPD_REQUIRES(mu_) { return ending_; })) {
          return;
        }
      }
      alive();
      Tell("WATCHDOG=1\n");
    }
  });
}

}  // namespace uopd
