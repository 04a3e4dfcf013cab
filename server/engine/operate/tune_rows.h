// SPDX-License-Identifier: MIT
// Keeps tuning operations over restarts: store "tune" of the cache, one row for each operation.
//
// The rows stay with their data folder: they go to no cluster. Daemons that share the folder see
// each other's rows. Which of them runs an operation is decided by a lease on its row. Thread-safe;
// the calls block on the disk.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/store.h"
#include "server/engine/operate/tune_state.h"

namespace uopd::engine {

class TuneRows {
 public:
  // Of more rows than this the newest are read.
  static constexpr int64_t kMaxRows = 1024;

  // The right to run an operation. It is renewed until the end of this object, which gives it back.
  class Lease {
   public:
    Lease(cache::Store& store, cache::Key key, int64_t token, int64_t ttl_us)
        : store_(store),
          key_(std::move(key)),
          token_(token),
          scope_(std::in_place, store.keeper(), key_.address(), token, ttl_us) {}
    ~Lease() {
      scope_.reset();  // nobody renews it any more
      store_.ReleaseLease(key_, token_).IgnoreError();
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // Another daemon may run the operation now.
    bool lost() const { return scope_->lost(); }

   private:
    cache::Store& store_;
    const cache::Key key_;
    const int64_t token_;
    std::optional<cache::LeaseKeeper::Scope> scope_;
  };
  struct Claim {
    std::unique_ptr<Lease>
        maybe_lease;  // null: somebody has it, perhaps this daemon, or the leases cannot be reached
    std::string holder;  // who has it; empty: nobody known
  };

  // `store` outlives this object.
  TuneRows(cache::Store& store, std::string owner, int64_t lease_us)
      : store_(store), owner_(std::move(owner)), lease_us_(lease_us) {}

  // The addresses of all rows, the newest first.
  std::vector<Digest> List() const;
  // nullopt: the row is gone, damaged, or of another version of the daemon.
  std::optional<TuneState> Read(const Digest& row) const;
  static Digest AddressOf(std::string_view id) { return KeyOf(id).address(); }

  void Put(const TuneState& state);
  void Remove(std::string_view id);
  // What was put survives the daemon.
  absl::Status Flush() { return store_.Flush(); }
  Claim TryClaim(std::string_view id);

 private:
  static cache::Key KeyOf(std::string_view id);

  cache::Store& store_;
  const std::string owner_;
  const int64_t lease_us_;
};

}  // namespace uopd::engine
