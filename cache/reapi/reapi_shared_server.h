// SPDX-License-Identifier: MIT
// ReapiSharedServer: records in a cache of the Remote Execution API v2 (bazel-remote, Buildbarn,
// BuildGrid and others).
//
// A record is the standard output of an action that nobody runs; the action's digest is made of the
// record's address and of the version of this layout. Small records lie in the result itself,
// larger ones are blobs that the result names. The standard error holds the fence in decimal
// digits. The server is a cache: it drops results and blobs when it likes, and that is a miss.
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cluster/shared_server.h"
#include "cache/reapi/reapi_channel.h"

namespace uopd::cache {

// RecordServer: a shared server that keeps records and nothing else, as a cache of blobs does.
//
// The store asks it for no lease and does not listen to it (SharedServer::coordinates): each
// machine has its own leases, so two machines may compute the same value at once, and what others
// put is found by lookups.
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

class ReapiSharedServer final : public RecordServer {
 public:
  explicit ReapiSharedServer(const ReapiOptions& options) : channel_(options) {}

  absl::StatusOr<std::optional<std::string>> Get(const Digest& address, Deadline deadline) override;
  absl::StatusOr<bool> Has(const Digest& address, Deadline deadline) override;
  // Looks at the fence before it writes: of two machines that put at the same moment, either record
  // may stay. RESOURCE_EXHAUSTED: the server answers, and does not take the record.
  absl::StatusOr<bool> Put(const Announcement& what, std::string_view record, int64_t fence,
                           std::optional<Stream> stream, Deadline deadline) override;
  // By a result that holds the time at which it was first asked for, by the clock of who asked.
  absl::StatusOr<KeysAge> AskKeysAge(Deadline deadline) override;

 private:
  // nullopt: there is none.
  absl::StatusOr<std::optional<reapi::ActionResult>> GetResult(const reapi::Digest& action,
                                                               Deadline deadline);
  // What the result holds under one of its outputs. nullopt: the server has dropped it.
  absl::StatusOr<std::optional<std::string>> Output(std::string raw,
                                                    const reapi::Digest* maybe_blob,
                                                    Deadline deadline);
  // The number in an output; 0: none, or not a positive one.
  absl::StatusOr<int64_t> Number(std::string raw, const reapi::Digest* maybe_blob,
                                 Deadline deadline);
  absl::Status PutResult(const reapi::Digest& action, const reapi::ActionResult& result,
                         Deadline deadline);

  ReapiChannel channel_;
};

}  // namespace uopd::cache
