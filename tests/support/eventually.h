// SPDX-License-Identifier: MIT
// Waiting in tests for what happens in another thread or process.
#pragma once
#include <chrono>
#include <thread>

namespace uopd::testing {

// Asks until the condition holds; false when it does not for a minute, which is a failure.
template <class F>
bool Eventually(F holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace uopd::testing
