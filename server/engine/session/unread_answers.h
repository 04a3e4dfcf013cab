// SPDX-License-Identifier: MIT
// What clients have not read yet, for each flow and each peer (base/caller.h), and how much of it
// there may be.
//
// An answer is held until its client takes it: the message, and the bytes that gRPC made of it. A
// client that does not read must hurt nobody but itself, so a flow may leave a quarter of
// limits.total_bytes unread, a peer three eighths, and all together a half. A flow that has read
// everything may ask for one more answer somewhat longer, so that others at its address do not stop
// it.
//
// Answers in pieces (downloads) have less: pieces get small when a flow leaves half of
// kPiecesOfFlow unread, and beyond kPiecesOfFlow there is none until some are read. A flow that has
// read everything always gets a small one.
//
// Thread-safe. Answers of fewer than kLeast bytes are not worth counting: the number of calls
// bounds them.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/engine/base/caller.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

class UnreadAnswers {
 public:
  static constexpr int64_t kLeast = 4 << 10;
  static constexpr int64_t kPiecesOfFlow = 64 << 20;
  static constexpr int64_t kSmallPiece = 16 << 10, kPieceOverhead = 1 << 10;

  // `total` is limits.total_bytes, and outlives this object.
  explicit UnreadAnswers(const Quota& total) : total_(total) {}
  UnreadAnswers(const UnreadAnswers&) = delete;
  UnreadAnswers& operator=(const UnreadAnswers&) = delete;

  // Bytes that a client has not read. The destructor says that it has, or that the call is over.
  class Held {
   public:
    Held() = default;
    ~Held() { Release(); }
    Held(Held&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          flow_(std::move(other.flow_)),
          peer_(std::move(other.peer_)),
          bytes_(other.bytes_) {}
    Held& operator=(Held&& other) noexcept {
      Release();
      owner_ = std::exchange(other.owner_, nullptr);
      flow_ = std::move(other.flow_);
      peer_ = std::move(other.peer_);
      bytes_ = other.bytes_;
      return *this;
    }
    int64_t bytes() const { return owner_ == nullptr ? 0 : bytes_; }

   private:
    friend class UnreadAnswers;
    Held(UnreadAnswers& owner, const Caller& caller, int64_t bytes)
        : owner_(&owner), flow_(caller.flow), peer_(PeerOf(caller)), bytes_(bytes) {}
    void Release();

    UnreadAnswers* owner_ = nullptr;  // null: nothing is held
    std::string flow_, peer_;
    int64_t bytes_ = 0;
  };

  // Whether anybody can be at a limit. False: nobody is, and Check need not be asked.
  bool crowded() const { return all_.load(std::memory_order_relaxed) >= OfFlow(); }
  // RESOURCE_EXHAUSTED: the caller leaves too much unread, so a call with an answer must not begin.
  absl::Status Check(const Caller& caller) const UOPD_EXCLUDES(mu_);
  // Holds an answer of this many bytes for the caller. RESOURCE_EXHAUSTED: as Check.
  absl::StatusOr<Held> Hold(const Caller& caller, int64_t bytes) UOPD_EXCLUDES(mu_);
  // Holds the next piece, of at most `*data` bytes of data, and sets how many it may have.
  // Held::bytes() 0: there is no room for a piece now. Try again later; nobody tells when.
  Held HoldPiece(const Caller& caller, uint64_t* data) UOPD_EXCLUDES(mu_);

  int64_t all() const { return all_.load(std::memory_order_relaxed); }
  // For tests: how many flows and peers have something unread.
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  struct Unread {
    int64_t flow = 0, peer = 0;
  };
  static std::string PeerOf(const Caller& caller);
  int64_t OfFlow() const { return total_.limit() / 4; }
  Unread Of(const Caller& caller) const UOPD_REQUIRES(mu_);
  absl::Status Admit(const Unread& unread, int64_t bytes) const UOPD_REQUIRES(mu_);
  bool PeerHasRoom(const Unread& unread, int64_t bytes, bool somewhat_more) const
      UOPD_REQUIRES(mu_);
  Held Add(const Caller& caller, int64_t bytes) UOPD_REQUIRES(mu_);
  void Remove(const Held& held) UOPD_EXCLUDES(mu_);

  const Quota& total_;
  mutable Mutex mu_;
  std::atomic<int64_t> all_{0};  // written under mu_
  absl::flat_hash_map<std::string, int64_t> flows_ UOPD_GUARDED_BY(mu_), peers_
      UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
