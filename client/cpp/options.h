// SPDX-License-Identifier: MIT
// The settings and the counters of a Client.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

struct ClientOptions {
  // The device of new tensors. Empty: the daemon's default device.
  std::string device;
  // Seed of the random stream. Equal seeds and equal calls give equal numbers.
  uint64_t seed = 0;
  // Sent with every request.
  v1::Options execution;
};

// The switches that the environment sets: BEAM=n, IGNORE_BEAM_CACHE=1, CACHELEVEL=0..2, NOOPT=1,
// ALLOW_BF16=1, ALLOW_F16=1, DEBUG=1..7. Each variable may also have UOPD_ in front; that one wins. INVALID_ARGUMENT for a bad
// value. Meant for ClientOptions::execution. The library itself never reads the environment.
absl::StatusOr<v1::Options> OptionsFromEnvironment();

// Totals since the Client was made.
struct ClientStats {
  uint64_t executes = 0;        // requests that ran
  uint64_t graphs_sent = 0;     // requests among these that carried the graph
  uint64_t inline_bytes = 0;    // tensor contents inside Execute requests
  uint64_t uploaded_bytes = 0;  // tensor contents in upload streams
  uint64_t downloads = 0;
  uint64_t compactions = 0;
  uint64_t kernels_compiled = 0;  // what the daemon reported
  uint64_t kernels_disk = 0;
  uint64_t kernels_memory = 0;
  uint64_t kernels_tuned = 0;  // in the program that ran last
  uint64_t schedule_misses = 0;
  double last_run_us = 0;
};

}  // namespace uopd::client
