// SPDX-License-Identifier: MIT
// ServerLink: the shared server as one simulated daemon reaches it.
//
// A call takes effect at once and moves the clock of the simulation to the time at which its answer
// is there. So a chain of calls of one handler is a chain in time, too. Its limit: events of other
// daemons that lie within the chain happen after it, although their commands may be earlier by its
// length, which is milliseconds (seconds in a pass of a refill). Puts are not listened for here:
// the daemon waits for them with events.
#pragma once
#include "cache/cluster/shared_server.h"
#include "tests/simulation/server/shared_tier.h"

namespace uopd::sim {

// What decides whether a daemon can reach the server. It outlives the links.
struct Reach {
  int64_t cut_until_us = 0;
  int64_t asked = 0;    // commands
  uint64_t number = 0;  // of the daemon, where they are counted
};

class ServerLink final : public cache::SharedServer {
 public:
  ServerLink(SharedTier& tier, Reach& reach) : tier_(tier), reach_(reach) {}

  absl::StatusOr<std::optional<std::string>> Get(const Digest& address,
                                                 cache::Deadline deadline) override;
  absl::StatusOr<bool> Has(const Digest& address, cache::Deadline deadline) override;
  absl::StatusOr<bool> HasAll(std::span<const Digest> addresses, cache::Deadline deadline) override;
  absl::StatusOr<bool> Put(const cache::Announcement& what, std::string_view record, int64_t fence,
                           std::optional<cache::Stream> stream, cache::Deadline deadline) override;
  absl::StatusOr<cache::LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                              int64_t ttl_us, cache::Deadline deadline) override;
  absl::Status Renew(const Digest& address, int64_t token, std::string_view owner, int64_t ttl_us,
                     cache::Deadline deadline) override;
  absl::Status Release(const Digest& address, int64_t token, cache::Deadline deadline) override;
  absl::Status CheckNewest(const Digest& address, int64_t token, cache::Deadline deadline) override;
  absl::StatusOr<bool> IsHeld(const Digest& address, cache::Deadline deadline) override;
  absl::StatusOr<cache::KeysAge> AskKeysAge(cache::Deadline deadline) override;
  absl::StatusOr<std::vector<cache::Announcement>> Listen(cache::Stream stream, std::string& cursor,
                                                          cache::Deadline deadline) override;

 private:
  // Asks: `apply` gets the date at which the server does it, and gives the answer.
  template <class Apply>
  auto Ask(Command command, const Digest* address, int64_t bytes, cache::Deadline deadline,
           const Apply& apply) -> absl::StatusOr<decltype(apply(int64_t{}))>;
  int64_t BytesOf(std::string_view store) const;
  int64_t BytesOf(const Digest& address) const;

  SharedTier& tier_;
  Reach& reach_;
  int64_t connected_ = 0;  // to which birth of the server; 0: not connected
};

}  // namespace uopd::sim
