// SPDX-License-Identifier: MIT
// The operations that are measured one by one: how to build each with the client, and the libraries
// to compare it with.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/perf/peers/peers.h"
#include "tests/perf/program.h"
#include "uopd/client.h"
#include "uopd/executor.h"

namespace uopd::perf {

struct Work {
  std::string group, name;
  int threads = 2;
  double amount = 0;  // of `unit`, in one run
  std::string unit = "GFLOP/s";
  std::function<client::Tensor(client::Client&)> build;
  std::function<absl::StatusOr<client::Exported>()> graph;  // instead of build
  std::function<std::vector<PeerRun>(int threads)> peers;
  ProgramOptions options = {};
  std::string family = {};  // whose ratios have one mean; empty: the group
};

// All of them, group by group.
std::vector<Work> AllWorks();

}  // namespace uopd::perf
