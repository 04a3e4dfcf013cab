// SPDX-License-Identifier: MIT
// How a request ended, for whom that is of interest: the daemon's faults are those that an
// objective of availability counts.
#pragma once
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace uopd::engine {

enum class Outcome : uint8_t { kOk, kRefused, kFailed, kCount };
inline constexpr size_t kOutcomeCount = static_cast<size_t>(Outcome::kCount);

constexpr Outcome OutcomeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return Outcome::kOk;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
      return Outcome::kFailed;
    default:
      return Outcome::kRefused;
  }
}

}  // namespace uopd::engine
