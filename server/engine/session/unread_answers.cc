// SPDX-License-Identifier: MIT
#include "server/engine/session/unread_answers.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

int64_t At(const absl::flat_hash_map<std::string, int64_t>& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? 0 : it->second;
}

void Subtract(absl::flat_hash_map<std::string, int64_t>& map, const std::string& key,
              int64_t bytes) {
  const auto it = map.find(key);
  if ((it->second -= bytes) == 0) map.erase(it);
}

}  // namespace

void UnreadAnswers::Held::Release() {
  if (owner_ != nullptr) std::exchange(owner_, nullptr)->Remove(*this);
}

// Tenants at one address are as little to blame for each other as those at two.
std::string UnreadAnswers::PeerOf(const Caller& caller) {
  return Cat(caller.peer, " ", caller.tenant);
}

UnreadAnswers::Unread UnreadAnswers::Of(const Caller& caller) const {
  return {.flow = At(flows_, caller.flow), .peer = At(peers_, PeerOf(caller))};
}

bool UnreadAnswers::PeerHasRoom(const Unread& unread, int64_t bytes, bool somewhat_more) const {
  const int64_t eighth = total_.limit() / 8, more = somewhat_more ? eighth : 0;
  return unread.peer + bytes <= 3 * eighth + more && all() + bytes <= 4 * eighth + more;
}

absl::Status UnreadAnswers::Admit(const Unread& unread, int64_t bytes) const {
  const bool fits = unread.flow == 0
                        ? PeerHasRoom(unread, 0, true)
                        : unread.flow + bytes <= OfFlow() && PeerHasRoom(unread, bytes, false);
  if (fits) return absl::OkStatus();
  metrics::MemoryRefused({"unread_answers"}).Increment();
  return absl::ResourceExhaustedError(Cat(
      "the client has not read ", unread.flow, " bytes of its answers, its address ", unread.peer,
      ", and all clients ", all(), ": too much of limits.total_bytes (", total_.limit(), ")"));
}

absl::Status UnreadAnswers::Check(const Caller& caller) const {
  const MutexLock lock(mu_);
  return Admit(Of(caller), 0);
}

absl::StatusOr<UnreadAnswers::Held> UnreadAnswers::Hold(const Caller& caller, int64_t bytes) {
  const MutexLock lock(mu_);
  UOPD_TRY(Admit(Of(caller), bytes));
  return Add(caller, bytes);
}

UnreadAnswers::Held UnreadAnswers::HoldPiece(const Caller& caller, uint64_t* data) {
  const auto bytes = [&] { return kPieceOverhead + 2 * static_cast<int64_t>(*data); };
  const MutexLock lock(mu_);
  const Unread unread = Of(caller);
  const int64_t most = std::min(kPiecesOfFlow, OfFlow());
  *data = std::min(*data, static_cast<uint64_t>(std::max(most / 8, kSmallPiece)));
  if (unread.flow + bytes() <= most / 2 && PeerHasRoom(unread, bytes(), false))
    return Add(caller, bytes());
  *data = std::min(*data, static_cast<uint64_t>(kSmallPiece));
  if (unread.flow == 0 || (unread.flow + bytes() <= most && PeerHasRoom(unread, bytes(), true)))
    return Add(caller, bytes());
  return {};
}

UnreadAnswers::Held UnreadAnswers::Add(const Caller& caller, int64_t bytes) {
  Held out(*this, caller, bytes);
  flows_[out.flow_] += bytes;
  peers_[out.peer_] += bytes;
  all_.store(all() + bytes, std::memory_order_relaxed);
  return out;
}

void UnreadAnswers::Remove(const Held& held) {
  const MutexLock lock(mu_);
  Subtract(flows_, held.flow_, held.bytes_);
  Subtract(peers_, held.peer_, held.bytes_);
  all_.store(all() - held.bytes_, std::memory_order_relaxed);
}

size_t UnreadAnswers::size() const {
  const MutexLock lock(mu_);
  return flows_.size() + peers_.size();
}

}  // namespace uopd::engine
