// SPDX-License-Identifier: MIT
// What is done to a fleet while it tunes and answers.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/cluster/fleet.h"

namespace uopd::cluster {

struct NamedFault {
  std::string name, doc;
  // How long the fault lasts.
  std::chrono::milliseconds lasts;
  std::function<absl::Status(Fleet&)> begin, end;
  // Nothing breaks: shows how much the two sides of a comparison differ by chance.
  bool control = false;
};

const std::vector<NamedFault>& Faults();

}  // namespace uopd::cluster
