// SPDX-License-Identifier: MIT
// What all clients together may take: calls a second, memory, and answers that they leave unread.
//
// Thread-safe.
#pragma once
#include "server/engine/base/preemptible.h"
#include "server/engine/session/peer_rates.h"
#include "server/engine/session/quota.h"
#include "server/engine/session/unread_answers.h"

namespace uopd::engine {

struct ClientLimits {
  ClientLimits(int64_t peer_requests_per_s, int64_t total_bytes)
      : rates(peer_requests_per_s), bytes("limits.total_bytes", total_bytes) {}

  // Charges for a message. It does not wait for work that gives way, but may exceed the limit by
  // the bytes of that work.
  absl::StatusOr<Charge> ChargeMessage(int64_t size) {
    auto charge = Charge::Take(bytes, size, ByteClass::kMessages);
    if (charge.ok()) return charge;
    // Work that ends after the first line has given its bytes back when the second line is read.
    const int64_t leaving = preemptible.leaving_bytes();
    if (size > bytes.limit() - bytes.used() + leaving) return charge;
    return Charge::Always(bytes, size, ByteClass::kMessages);
  }

  PeerRates rates;
  Quota bytes;  // limits.total_bytes
  UnreadAnswers unread{bytes};
  PreemptibleTable preemptible;  // work whose memory clients may need
};

}  // namespace uopd::engine
