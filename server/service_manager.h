// SPDX-License-Identifier: MIT
// Tells the service manager that started this process (systemd, Type=notify) what the daemon does:
// sd_notify(3).
//
// The protocol is a datagram with lines "KEY=VALUE" to the socket that the variable NOTIFY_SOCKET
// names; its manual page allows programs to speak it themselves. libsystemd would do the same, and
// load four libraries of compression and cryptography into a process that faces clients.
//
// Thread-safe. Without such a variable nothing is told to anybody.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/mutex.h"

namespace uopd {

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them: child processes must not
  // speak for the daemon. With `mute` nothing is told: the variables are those of a client that
  // started this daemon for itself. REQUIRES: no other thread runs.
  static std::unique_ptr<ServiceManager> FromEnvironment(bool mute);
  ~ServiceManager();

  // Tells that requests are served from now on, or again after Reloading. `status` is one line for
  // people (systemctl status).
  void Ready(std::string_view status);
  // Tells that settings are read again. Ready follows.
  void Reloading();
  // Tells that the daemon ends, and how long that may take: the manager waits for so long.
  void Stopping(std::string_view status, std::chrono::milliseconds longest);
  // If the manager wants signs of life, sends them until Stopping, in half of the time that it
  // waits: each time after a call of `alive` has returned. A daemon whose `alive` hangs is ended by
  // the manager.
  void KeepAlive(std::function<void()> alive);

 private:
  ServiceManager() = default;
  void Tell(const std::string& lines) const;
  void EndSigns() UOPD_EXCLUDES(mu_);

  std::string socket_;  // path; of an abstract name, the first byte is 0; empty: no manager
  std::chrono::microseconds watchdog_{
      0};  // the manager waits so long for a sign of life; 0: for ever
  Mutex mu_;
  std::condition_variable changed_;
  bool ending_ UOPD_GUARDED_BY(mu_) = false;
  std::thread signs_;
};

}  // namespace uopd
