// SPDX-License-Identifier: MIT
// Settings of a Client and what it counts.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

struct ClientOptions {
  // Where new tensors live; empty is the daemon's default device.
  std::string device;
  // Of the random stream; equal seeds and equal calls give equal numbers.
  uint64_t seed = 0;
  // Travel with every request.
  v1::Options execution;
};

// The switches that the environment sets: BEAM=n, IGNORE_BEAM_CACHE=1, CACHELEVEL=0..2, NOOPT=1,
// DEBUG=1..7; each also with UOPD_ in front, which wins. INVALID_ARGUMENT for a value that is none. For
// ClientOptions::execution, by who wants them: the library itself does not look.
absl::StatusOr<v1::Options> OptionsFromEnvironment();

// Totals since the Client was made.
struct ClientStats {
  uint64_t executes = 0;        // requests that ran
  uint64_t graphs_sent = 0;     // of those, how many carried the graph
  uint64_t inline_bytes = 0;    // tensor contents inside Execute requests
  uint64_t uploaded_bytes = 0;  // tensor contents in upload streams
  uint64_t downloads = 0;
  uint64_t compactions = 0;
  uint64_t kernels_compiled = 0;  // what the daemon reported
  uint64_t kernels_disk = 0;
  uint64_t kernels_memory = 0;
  uint64_t kernels_tuned = 0;  // of the program that ran last
  uint64_t schedule_misses = 0;
  double last_run_us = 0;
};

}  // namespace uopd::client
