// SPDX-License-Identifier: MIT
// Eventually: waits in a test for something that happens in another thread or process.
#pragma once
#include <chrono>
#include <thread>

namespace uopd::test {

// Polls the condition until it holds. Returns false after five minutes; the test should fail then.
// Background work has the lowest priority: a full machine gives it a hundredth of a processor.
template <class F>
bool Eventually(F holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace uopd::test
