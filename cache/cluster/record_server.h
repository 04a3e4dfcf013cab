// SPDX-License-Identifier: MIT
// RecordServer: a shared server that keeps records and nothing else, as a cache of blobs does.
//
// The store asks it for no lease and does not listen to it (SharedServer::coordinates): each machine has its own leases, so
// two machines may compute the same value at once, and what others put is found by lookups.
#pragma once

#include <string>
#include <vector>

#include "cache/cluster/shared_server.h"

namespace uopd::cache {

class RecordServer : public SharedServer {
 public:
  bool coordinates() const final { return false; }

  absl::StatusOr<LeaseResult> TryLease(const Digest& /*address*/, std::string_view /*owner*/,
                                       int64_t /*ttl_us*/, Deadline /*deadline*/) final {
    return NoCoordination();
  }
  absl::Status Renew(const Digest& /*address*/, int64_t /*token*/, std::string_view /*owner*/,
                     int64_t /*ttl_us*/, Deadline /*deadline*/) final {
    return NoCoordination();
  }
  absl::Status Release(const Digest& /*address*/, int64_t /*token*/, Deadline /*deadline*/) final {
    return NoCoordination();
  }
  absl::Status CheckNewest(const Digest& /*address*/, int64_t /*token*/,
                           Deadline /*deadline*/) final {
    return NoCoordination();
  }
  absl::StatusOr<bool> IsHeld(const Digest& /*address*/, Deadline /*deadline*/) final {
    return NoCoordination();
  }
  absl::StatusOr<std::vector<Announcement>> Listen(Stream /*stream*/, std::string& /*cursor*/,
                                                   Deadline /*deadline*/) final {
    return NoCoordination();
  }

 private:
  static absl::Status NoCoordination() {
    return absl::UnimplementedError("The shared tier keeps records and grants no leases");
  }
};

}  // namespace uopd::cache
