// SPDX-License-Identifier: MIT
// Leases over addresses of the cache. One owner at a time may compute the value of a key. A lease
// that is not renewed ends by itself.
//
// One implementation is the authority of a store and hands out all of its tokens. A write that
// carries an older token than the newest of its address is refused. The leases are those of Gray
// and Cheriton (SOSP 1989), the tokens are the sequencers of Burrows' Chubby (OSDI 2006). Tokens
// grow for ever: a new token is the last token plus one, or the clock if that is greater.
// Thread-safe. Times are microseconds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/digest.h"

namespace uopd::cache {

enum class LeaseOutcome { kGranted, kBusy, kUnavailable };
const char* Name(LeaseOutcome outcome);  // "granted"

struct LeaseResult {
  LeaseOutcome outcome = LeaseOutcome::kUnavailable;
  int64_t token = 0;  // greater than every token granted before; 0 unless granted
  int64_t expires_us = 0;
  std::string holder;  // the owner of the lease, if busy
  bool granted() const { return outcome == LeaseOutcome::kGranted; }
};

// The ABORTED status of the functions below.
absl::Status LeaseLost();

class Leases {
 public:
  virtual ~Leases() = default;

  virtual LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) = 0;
  // ABORTED: the lease has expired or was taken over. UNAVAILABLE: its state is not known now.
  virtual absl::Status Renew(const Digest& address, int64_t token, int64_t ttl_us) = 0;
  // ABORTED: the lease was taken over. The token stays the newest of the address.
  virtual absl::Status Release(const Digest& address, int64_t token) = 0;
  // ABORTED: `token` is not the newest of the address, so another owner decides the value. The
  // token of an expired lease that nobody took over is still the newest. UNAVAILABLE: not known
  // now.
  virtual absl::Status CheckNewest(const Digest& address, int64_t token) = 0;
  // A hint: no request waits for the lease of the address, so questions about it may take longer.
  virtual void BePatient(const Digest& /*address*/) {}
  // Also false if the state of the lease is not known now: a waiter that cannot see the lease had
  // better compute.
  virtual bool IsHeld(const Digest& address) = 0;
};

}  // namespace uopd::cache
