// SPDX-License-Identifier: MIT
// Whether a daemon may begin a search that nobody waits for.
//
// A search takes long, so it is not begun where another machine may run it, or may have finished
// it: the leases that are renewed, and the results that wait in queues, come first after a failure
// of the shared server.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/status/status.h"
#include "cache/cluster/cluster.h"

namespace uopd::cache {

struct SearchGate {
  // A search begins when the server has answered, and has had its keys, for so long.
  int64_t settle_us = 10'000'000;
  // While the server does not answer no search begins, until it has been away for so long. The same
  // holds if it answers and never settles.
  int64_t alone_after_us = 600'000'000;

  // ABORTED: not now. Null: there is no cluster, and OK. Asks the server.
  absl::Status MaySearch(Cluster* maybe_cluster) const;
  // How long to wait before try `tries` + 1: each time twice as long, so that those who wait do not
  // keep the server busy.
  static constexpr std::chrono::milliseconds PauseAfter(int tries) {
    return std::chrono::milliseconds(100) * (1 << std::clamp(tries - 1, 0, 4));
  }
};

}  // namespace uopd::cache
