// SPDX-License-Identifier: MIT
// uopctl as a process, its standard output and standard error apart.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/daemon_process.h"

namespace uopd::e2e {

struct UopctlRun {
  int code = -1;
  std::string out, err;

  // The object of --json: standard output is this one line. Null if it is anything else.
  nlohmann::json envelope() const;
  nlohmann::json data() const { return envelope().value("data", nlohmann::json()); }
  nlohmann::json error() const { return envelope().value("error", nlohmann::json()); }
};

// The arguments are words of a shell.
UopctlRun RunCtl(const std::string& arguments);
// The same for this daemon.
UopctlRun RunCtl(const DaemonProcess& daemon, const std::string& arguments);

}  // namespace uopd::e2e
