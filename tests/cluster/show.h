// SPDX-License-Identifier: MIT
// The show: what a cluster of daemons promises, seen from outside.
//
//   cold    many clients of several daemons ask for the same new kernels, with tuning: one compile
//           of each in the whole cluster and tier, one tuning, the same answers, and each winner on
//           each daemon
//   join    a daemon with an empty disk compiles nothing
//   faults  the same while something breaks (faults.h): nothing is tuned twice, nothing is lost, no
//           client sees an error, and whoever runs what is warm does not feel it
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tests/cluster/table.h"

namespace uopd::cluster {

struct ShowOptions {
  std::string uopd;  // path of the daemon
  std::string redis = "redis-server";
  int daemons = 3, clients = 16, kernels = 40;
  int kernels_of_fault = 3;         // new kernels that are tuned during each fault
  std::vector<std::string> faults;  // names; empty: all
  int rounds = 3;                   // of each fault, alternating with the same load without it
  bool times = true;                // whether times have targets; without, they are figures
  bool resnet = true;               // whether the daemon that joins serves ResNet-50 too
};

// Fails only if the show could not be given. What does not hold is in the table.
absl::Status RunShow(const ShowOptions& options, Table& table);

}  // namespace uopd::cluster
