// SPDX-License-Identifier: MIT
// The answer of a daemon that ends, which clients know by its text: what was not begun may be sent
// again.
#pragma once
#include <chrono>
#include <string>

#include "core/base/status.h"

namespace uopd::engine {

inline constexpr char kShuttingDown[] = "the daemon is shutting down";
// When a client may try again: by then another daemon may have the address.
inline constexpr std::chrono::milliseconds kRetryAfter{500};

inline absl::Status ShuttingDown() {
  return absl::UnavailableError(
      std::string(kShuttingDown) +
      ": send the call again in a moment, to this address if another daemon takes it over");
}

// True for ShuttingDown(): the call was not begun.
inline bool IsShuttingDown(const absl::Status& status) {
  return absl::IsUnavailable(status) && status.message() == ShuttingDown().message();
}

}  // namespace uopd::engine
