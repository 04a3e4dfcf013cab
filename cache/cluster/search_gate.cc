// SPDX-License-Identifier: MIT
#include "cache/cluster/search_gate.h"

namespace uopd::cache {

absl::Status SearchGate::MaySearch(Cluster* maybe_cluster) const {
  // Without leases of the whole cluster each machine searches for itself, whatever the others do.
  if (maybe_cluster == nullptr || !maybe_cluster->coordinates()) return absl::OkStatus();
  const absl::StatusOr<int64_t> settled = maybe_cluster->SettledUs();
  bool begins = false;
  if (settled.ok()) {
    begins = *settled >= settle_us;
    if (maybe_cluster->UnsettledUs(begins) >= alone_after_us + maybe_cluster->RefillUs())
      begins = true;
  } else {
    begins = maybe_cluster->AwayUs() >= alone_after_us;
  }
  if (begins) return absl::OkStatus();
  return absl::AbortedError(
      settled.ok()
          ? "its server has not answered for long enough to begin a search (tune.settle_ms)"
          : "its server is away (tune.alone_after_ms says how long a search waits)");
}

}  // namespace uopd::cache
