// SPDX-License-Identifier: MIT
#include "server/engine/base/work_gate.h"

#include <algorithm>

#include "server/engine/base/shutting_down.h"

namespace uopd::engine {

absl::StatusOr<Work> WorkGate::Begin() {
  // Count first, then look at draining_: so either the drain sees this request, or this request
  // sees the drain.
  working_.fetch_add(1);
  Work work(this);
  if (draining_.load()) return ShuttingDown();
  return work;
}

void WorkGate::Close() {
  Leave();
  draining_.store(true);
}

void WorkGate::End() {
  if (working_.fetch_sub(1) != 1 || !draining_.load()) return;
  MutexLock lock(mu_);
  drained_.notify_all();
}

bool WorkGate::AwaitNone(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  // Limit the deadline: a distant one overflows when the library converts it to the system's clock.
  deadline = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::hours(24));
  return lock.WaitUntil(drained_, deadline, [this] { return working_.load() == 0; });
}

}  // namespace uopd::engine
