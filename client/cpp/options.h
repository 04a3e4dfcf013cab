// SPDX-License-Identifier: MIT
// Settings of a Client and what it counts.
#pragma once
#include <cstdint>
#include <string>

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
  uint64_t schedule_misses = 0;
  double last_run_us = 0;
};

}  // namespace uopd::client
