// SPDX-License-Identifier: MIT
// Runs a Program: every block of a launch, all threads of a block together, line by line. Threads
// of different roles go on independently (squads.h).
//
// The reference for whatever runs kernels in parallel. It reports what a chip would not:
//   - an access outside of its buffer or array;
//   - a race: two threads access an element, one of them stores, and no barrier is in between.
//     Threads of different blocks have no barriers;
//   - a load of an element of a shared or private array that was not stored;
//   - a loop whose size differs between the threads of a block;
//   - a SHUFFLE with a lane that the block does not have;
//   - roles that wait for each other forever.
//
// Kernels without blocks run as one thread of each block. Their shared arrays last for the whole
// launch, and a load of an element that no earlier thread stored would wait for ever, so it is
// reported.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.h"
#include "core/interp/program.h"

namespace uopd::interp {

struct LaunchArguments {
  int64_t grid[3] = {1, 1, 1};   // blocks; without blocks: threads
  int64_t block[3] = {1, 1, 1};  // threads of a block
  int64_t warp_lanes = 32;
  std::span<const std::span<std::byte>> buffers;  // by slot
  std::span<const int64_t> variables;
  const std::atomic<uint32_t>* maybe_stop = nullptr;  // not 0: the launch ends soon
  uint64_t seed =
      0;  // of the order in which the roles of a block go on (squads.h); blocks have other ones
  double budget = 1e12;  // operations of single threads; RESOURCE_EXHAUSTED above
};

// INTERNAL: a report, with the line, the block and the thread. INVALID_ARGUMENT: the arguments do
// not fit the program. OK if the stop word ended the launch.
absl::Status Run(const Program& program, const LaunchArguments& arguments);

}  // namespace uopd::interp
