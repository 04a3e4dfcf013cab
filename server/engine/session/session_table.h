// SPDX-License-Identifier: MIT
// All open sessions. Opens, finds and expires them.
//
//   open --no call for the TTL--> expired --resumed within the grace time--> open
//   expired --grace time over--> freed          open or expired --Close--> freed
//   open or expired --the client's process has ended--> freed
//
// An expired session refuses calls but keeps its buffers. A session with calls in progress does not
// expire. Thread-safe. A sweeper thread frees sessions whose time is over. The table outlives every
// SessionUse.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "server/engine/session/session.h"

namespace uopd::engine {

class SessionTable;

// One call's use of its session. The lease does not run out meanwhile. It starts again when the use
// ends.
class SessionUse {
 public:
  SessionUse() = default;
  ~SessionUse() { Release(); }
  SessionUse(SessionUse&& other) noexcept = default;
  SessionUse& operator=(SessionUse&& other) noexcept {
    Release();
    session_ = std::move(other.session_);
    table_ = other.table_;
    return *this;
  }

  Session* operator->() const { return session_.get(); }
  Session& operator*() const { return *session_; }
  explicit operator bool() const { return session_ != nullptr; }

 private:
  friend class SessionTable;
  SessionUse(std::shared_ptr<Session> session, SessionTable* table)
      : session_(std::move(session)), table_(table) {}
  void Release();

  std::shared_ptr<Session> session_;
  SessionTable* table_ = nullptr;
};

// What operators see of a session.
struct SessionView {
  static constexpr size_t kIdDigits = 8;  // too few of 32 to use the session by them

  std::string id_prefix, tenant, peer;
  Session::Clock::duration age{0}, idle{0};  // since it was opened, and since its last call
  std::chrono::milliseconds ttl{0};
  size_t buffers = 0;
  int64_t bytes = 0;
  int calls = 0;        // that run or wait
  std::string running;  // the first digits of the digest of the program that runs; empty: none does
  Session::Clock::duration running_for{0};
};

struct SessionOptions {
  std::chrono::milliseconds ttl{300'000}, max_ttl{86'400'000}, grace{60'000};
  size_t max_sessions = 1000, max_peer_sessions = SIZE_MAX;
  size_t session_buffers = BufferStore::kMaxBuffers;
  int64_t session_bytes = int64_t{4} << 30;
  int64_t peer_bytes = INT64_MAX;  // of all sessions of one peer together
};

class SessionTable {
 public:
  using Now = std::function<Session::Clock::time_point()>;

  // `sweep` false: the owner calls Sweep itself (for tests with their own clock).
  SessionTable(SessionOptions options, Quota& total, TaskPool& task_pool,
               Now now = Session::Clock::now, bool sweep = true);
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // The options apply to sessions that are opened later, and to peers.
  void set_options(const SessionOptions& options) UOPD_EXCLUDES(mu_);

  // RESOURCE_EXHAUSTED: there are too many sessions, in all or of this peer. A TTL of 0 means the
  // default TTL. A TTL that is too long is shortened.
  absl::StatusOr<SessionUse> Open(std::chrono::milliseconds ttl, const Opener& opener = {})
      UOPD_EXCLUDES(mu_);
  // NOT_FOUND (session): the grace time is over, or the session belongs to another tenant.
  absl::StatusOr<SessionUse> Resume(const std::string& token, std::string_view tenant = "")
      UOPD_EXCLUDES(mu_);
  // Renews the lease. NOT_FOUND (session): the session is unknown or expired, or belongs to another
  // tenant.
  absl::StatusOr<SessionUse> Use(const std::string& id, std::string_view tenant = "")
      UOPD_EXCLUDES(mu_);
  // The process with whose end the session ends, in place of the one before.
  void SetProcess(Session& session, ClientProcess process) UOPD_EXCLUDES(mu_);
  // A token of the session for the side socket, in place of the one before.
  absl::StatusOr<std::string> NewSideToken(Session& session) UOPD_EXCLUDES(mu_);
  // The session of such a token, which is no token any more. Renews the lease. NOT_FOUND (session):
  // the token is unknown or was used, or the session has expired.
  absl::StatusOr<SessionUse> TakeSideToken(const std::string& token) UOPD_EXCLUDES(mu_);
  absl::Status Close(const std::string& id, std::string_view tenant = "") UOPD_EXCLUDES(mu_);

  // Frees the sessions whose grace time is over, or whose process has ended.
  void Sweep() UOPD_EXCLUDES(mu_);
  size_t size() const UOPD_EXCLUDES(mu_);
  // The open sessions and their memory, by tenant.
  struct TenantShare {
    int64_t sessions = 0, bytes = 0;
  };
  std::map<std::string, TenantShare> ByTenant() const UOPD_EXCLUDES(mu_);
  size_t in_use() const UOPD_EXCLUDES(mu_);  // sessions of which a call runs or waits
  size_t max_sessions() const UOPD_EXCLUDES(mu_);
  // The sessions of a tenant, or of all tenants if `tenant` is empty: those with the most bytes
  // first, at most `most`.
  // `*left_out` is set to how many more there are.
  std::vector<SessionView> List(std::string_view tenant, size_t most, size_t* left_out) const
      UOPD_EXCLUDES(mu_);
  // Lets every session give back what can be made again. True if there was any.
  bool Reclaim() UOPD_EXCLUDES(mu_);
  // Every session gives up its buffers on devices that are lost, and hears of it in its next call.
  void NoteLosses() UOPD_EXCLUDES(mu_);
  std::chrono::milliseconds grace() const UOPD_EXCLUDES(mu_);

 private:
  friend class SessionUse;
  void Touch(Session& session) const;
  Session::Clock::duration Idle(const Session& session) const;
  SessionUse Hold(const std::shared_ptr<Session>& session);
  void Forget(Session& session) UOPD_REQUIRES(mu_);
  // A quota of all sessions of the peer.
  std::shared_ptr<Quota> QuotaOf(const std::string& peer) UOPD_REQUIRES(mu_);
  void SweepEnded() UOPD_EXCLUDES(mu_);
  void SweepForever();
  std::vector<std::shared_ptr<Session>> All() const UOPD_EXCLUDES(mu_);

  Quota& total_;
  TaskPool& task_pool_;
  const Now now_;
  mutable Mutex mu_;
  std::condition_variable stop_changed_;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  SessionOptions options_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> by_id_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> by_token_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> by_side_token_ UOPD_GUARDED_BY(mu_);
  struct Peer {
    size_t sessions = 0;           // number of open sessions
    std::shared_ptr<Quota> quota;  // of these sessions
  };
  absl::flat_hash_map<std::string, Peer> peers_ UOPD_GUARDED_BY(mu_);  // peers with open sessions
  std::thread sweeper_;
};

}  // namespace uopd::engine
