// SPDX-License-Identifier: MIT
// The settings and the counters of a Client.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace uopd::client {

// The switches of a request. Options in proto/uopd/v1/uopd.proto says what each one does.
struct ExecutionOptions {
  uint32_t beam = 0;   // BEAM=1..64
  uint32_t debug = 0;  // DEBUG=1..7
  bool noopt = false;  // NOOPT=1
  bool fast_math = false;
  bool ignore_beam_cache = false;         // IGNORE_BEAM_CACHE=1
  bool profile = false;                   // the report has the time of the kernels
  bool allow_bf16 = false;                // ALLOW_BF16=1
  bool allow_f16 = false;                 // ALLOW_F16=1
  bool allow_tf32 = false;                // ALLOW_TF32=1
  bool reproducible = false;              // REPRODUCIBLE=1
  std::optional<uint32_t> cache_level{};  // CACHELEVEL=0..2
  bool operator==(const ExecutionOptions&) const = default;
};

struct ClientOptions {
  // The device of new tensors, such as "CPU:1"; "CPU" is "CPU:0". Empty: the daemon's default
  // device.
  std::string device;
  // Seed of the random stream. Equal seeds and equal calls give equal numbers.
  uint64_t seed = 0;
  // Memory on the daemon that is kept for nothing but gradients through tensors that were realised.
  // Beyond that the graphs of those that were realised first are dropped, and Backward of what
  // needs them is an error.
  uint64_t history_bytes = uint64_t{256} << 20;
  // Sent with every request.
  ExecutionOptions execution;
};

// The switches that the environment sets: BEAM=n, IGNORE_BEAM_CACHE=1, CACHELEVEL=0..2, NOOPT=1,
// ALLOW_BF16=1, ALLOW_F16=1, ALLOW_TF32=1, REPRODUCIBLE=1, DEBUG=1..7. Each variable may also have
// UOPD_ in front; that one wins. INVALID_ARGUMENT for a bad value. Meant for
// ClientOptions::execution. The library itself never reads the environment.
absl::StatusOr<ExecutionOptions> OptionsFromEnvironment();

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
  uint64_t kernels_cluster = 0;
  uint64_t kernels_shared = 0;  // another request was getting them already
  uint64_t kernels_memory = 0;
  uint64_t kernels_tuned = 0;  // in the program that ran last
  uint64_t schedule_misses = 0;
  double last_run_us = 0;
  double run_us = 0;  // of all requests
};

}  // namespace uopd::client
