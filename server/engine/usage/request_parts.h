// SPDX-License-Identifier: MIT
// The time of a request as its user sees it: where it waited, and for what.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/telemetry/trace.h"

namespace uopd::engine {

enum class Part : uint8_t {
  kQueue,    // for a thread, a turn in the session, or another request that makes the same
  kCompile,  // for the program: to verify, schedule, generate, compile and load
  kDevice,   // on the devices, with the copies to and from them
  kOther,    // the rest: the daemon's own work
  kCount
};
inline constexpr size_t kPartCount = static_cast<size_t>(Part::kCount);
inline constexpr std::array<std::string_view, kPartCount> kPartNames = {"queue", "compile",
                                                                        "device", "other"};

struct RequestParts {
  std::array<int64_t, kPartCount> ns{};

  int64_t operator[](Part part) const { return ns[static_cast<size_t>(part)]; }
  // What the service added to the time on the devices.
  int64_t waited_ns() const {
    return (*this)[Part::kQueue] + (*this)[Part::kCompile] + (*this)[Part::kOther];
  }

  // Divides the time of a request. The sum of the parts is total_ns. Kernels of one request compile
  // side by side, so the phases of a compile may add up to more than the time for which the request
  // waited.
  static RequestParts Of(int64_t total_ns, const PhaseTimings& timings) {
    RequestParts out;
    int64_t left = std::max<int64_t>(total_ns, 0);
    const auto take = [&](Part part, int64_t ns) {
      ns = std::clamp<int64_t>(ns, 0, left);
      out.ns[static_cast<size_t>(part)] = ns;
      left -= ns;
    };
    const int64_t queue = timings[Phase::kQueue];
    const int64_t device = timings[Phase::kRun] + timings[Phase::kCopy];
    take(Part::kDevice, device);
    take(Part::kQueue, queue);
    take(Part::kCompile, timings.total_ns() - queue - device);
    take(Part::kOther, left);
    return out;
  }
};

}  // namespace uopd::engine
