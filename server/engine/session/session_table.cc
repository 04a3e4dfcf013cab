// SPDX-License-Identifier: MIT
#include "server/engine/session/session_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "server/engine/base/random_id.h"

namespace uopd::engine {
namespace {

constexpr std::chrono::milliseconds kSweepInterval{500};

absl::Status Unknown(const std::string& what) {
  return NotFound(kSession, Cat(what, " is unknown or has expired"));
}

}  // namespace

void SessionUse::Release() {
  if (session_ == nullptr) return;
  table_->Touch(*session_);
  session_->users_.fetch_sub(1, std::memory_order_release);
  session_ = nullptr;
}

SessionTable::SessionTable(SessionOptions options, Quota& total, TaskPool& task_pool, Now now,
                           bool sweep)
    : total_(total), task_pool_(task_pool), now_(std::move(now)), options_(options) {
  if (sweep) sweeper_ = std::thread([this] { SweepForever(); });
}

SessionTable::~SessionTable() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
  MutexLock lock(mu_);
  metrics::Sessions().Add(-static_cast<double>(by_id_.size()));
}

void SessionTable::set_options(const SessionOptions& options) {
  MutexLock lock(mu_);
  options_ = options;
  for (auto& [name, peer] : peers_) peer.quota->set_limit(options.peer_bytes);
  for (auto& [id, session] : by_id_) {
    session->quota().set_limit(options.session_bytes);
    session->buffers().set_max_buffers(options.session_buffers);
  }
}

absl::StatusOr<SessionUse> SessionTable::Open(std::chrono::milliseconds ttl, const Opener& opener) {
  const std::string& peer = opener.peer;
  UOPD_ASSIGN(std::string id, RandomId());
  UOPD_ASSIGN(std::string token, RandomId());
  MutexLock lock(mu_);
  if (by_id_.size() >= options_.max_sessions) {
    return absl::ResourceExhaustedError(Cat(
        "there are ", by_id_.size(), " open sessions, limits.sessions is ", options_.max_sessions));
  }
  if (auto of = peers_.find(peer);
      of != peers_.end() && of->second.sessions >= options_.max_peer_sessions) {
    return absl::ResourceExhaustedError(Cat("peer (", peer, ") has ", of->second.sessions,
                                            " open sessions, limits.peer_sessions is ",
                                            options_.max_peer_sessions));
  }
  if (ttl.count() <= 0) ttl = options_.ttl;
  ttl = std::min(ttl, options_.max_ttl);
  Peer& of_peer = peers_[peer];
  if (of_peer.quota == nullptr) of_peer.quota = QuotaOf(peer);
  auto session = std::make_shared<Session>(id, token, opener, ttl, options_.session_bytes,
                                           options_.session_buffers, of_peer.quota, task_pool_);
  session->opened_ = now_();
  Touch(*session);
  ++of_peer.sessions;
  by_id_.emplace(std::move(id), session);
  by_token_.emplace(std::move(token), session);
  metrics::Sessions().Add(1);
  return Hold(session);
}

absl::StatusOr<SessionUse> SessionTable::Resume(const std::string& token, std::string_view tenant) {
  MutexLock lock(mu_);
  auto it = by_token_.find(token);
  if (it == by_token_.end() || it->second->tenant() != tenant ||
      (Idle(*it->second) > it->second->ttl() + options_.grace && it->second->users_ == 0)) {
    return Unknown("session of this resume token");
  }
  return Hold(it->second);
}

absl::StatusOr<SessionUse> SessionTable::Use(const std::string& id, std::string_view tenant) {
  MutexLock lock(mu_);
  auto it = by_id_.find(id);
  if (it == by_id_.end() || it->second->tenant() != tenant ||
      (Idle(*it->second) > it->second->ttl() && it->second->users_ == 0)) {
    return Unknown(id.empty() ? "session (empty id)" : "session of this id");
  }
  return Hold(it->second);
}

void SessionTable::SetProcess(Session& session, ClientProcess process) {
  std::shared_ptr<const ClientProcess> known;
  if (process.known()) known = std::make_shared<const ClientProcess>(std::move(process));
  MutexLock lock(mu_);
  session.process_.swap(known);
}

absl::StatusOr<std::string> SessionTable::NewSideToken(Session& session) {
  UOPD_ASSIGN(std::string token, RandomId());
  MutexLock lock(mu_);
  const auto it = by_id_.find(session.id());
  if (it == by_id_.end()) return Unknown("session of this id");
  by_side_token_.erase(session.side_token_);
  session.side_token_ = token;
  by_side_token_.emplace(token, it->second);
  return token;
}

absl::StatusOr<SessionUse> SessionTable::TakeSideToken(const std::string& token) {
  MutexLock lock(mu_);
  const auto it = by_side_token_.find(token);
  if (it == by_side_token_.end()) return Unknown("session of this side token");
  const std::shared_ptr<Session> session = it->second;
  by_side_token_.erase(it);
  session->side_token_.clear();
  if (Idle(*session) > session->ttl() && session->users_ == 0) {
    return Unknown("session of this side token");
  }
  return Hold(session);
}

absl::Status SessionTable::Close(const std::string& id, std::string_view tenant) {
  std::shared_ptr<Session> session;  // destroyed after the lock is released
  MutexLock lock(mu_);
  auto it = by_id_.find(id);
  if (it == by_id_.end() || it->second->tenant() != tenant) return Unknown("session of this id");
  session = it->second;
  Forget(*session);
  return absl::OkStatus();
}

void SessionTable::SweepEnded() {
  struct Watched {
    std::shared_ptr<Session> session;
    std::shared_ptr<const ClientProcess> process;
  };
  std::vector<Watched> all;
  {
    MutexLock lock(mu_);
    for (const auto& [id, session] : by_id_) {
      if (session->process_ != nullptr) all.push_back({session, session->process_});
    }
  }
  std::erase_if(all, [](const Watched& w) { return !w.process->Ended(); });
  {
    MutexLock lock(mu_);
    std::erase_if(all, [this](const Watched& w) UOPD_REQUIRES(mu_) {
      // It was closed or taken over meanwhile.
      const auto it = by_id_.find(w.session->id());
      if (it == by_id_.end() || w.session->process_ != w.process) return true;
      Forget(*w.session);
      return false;
    });
  }
  for (const Watched& w : all) {
    UOPD_LOG(kInfo, "session ended with the process of its client",
             {"buffers", w.session->buffers().size()}, {"bytes", w.session->quota().used()});
  }
}

void SessionTable::Sweep() {
  SweepEnded();
  std::vector<std::shared_ptr<Session>> due;
  {
    MutexLock lock(mu_);
    for (const auto& [id, session] : by_id_) {
      if (session->users_.load(std::memory_order_acquire) == 0 &&
          Idle(*session) > session->ttl() + options_.grace) {
        due.push_back(session);
      }
    }
    for (const auto& session : due) Forget(*session);
  }
  for (const auto& session : due) {
    UOPD_LOG(kInfo, "session expired", {"buffers", session->buffers().size()},
             {"bytes", session->quota().used()});
  }
}

std::chrono::milliseconds SessionTable::grace() const {
  MutexLock lock(mu_);
  return options_.grace;
}

std::map<std::string, SessionTable::TenantShare> SessionTable::ByTenant() const {
  std::map<std::string, TenantShare> out;
  for (const auto& session : All()) {
    TenantShare& share = out[session->tenant()];
    ++share.sessions;
    share.bytes += session->shared_quota()->used();
  }
  return out;
}

std::vector<std::shared_ptr<Session>> SessionTable::All() const {
  std::vector<std::shared_ptr<Session>> out;
  MutexLock lock(mu_);
  for (const auto& [id, session] : by_id_) out.push_back(session);
  return out;
}

std::shared_ptr<Quota> SessionTable::QuotaOf(const std::string& peer) {
  auto out = std::make_shared<Quota>("limits.peer_bytes", options_.peer_bytes, &total_);
  out->set_reclaim([this, peer] {
    bool any = false;
    for (const auto& session : All()) {
      if (session->peer() == peer) any |= session->Reclaim();
    }
    return any;
  });
  return out;
}

bool SessionTable::Reclaim() {
  bool any = false;
  for (const auto& session : All()) any |= session->Reclaim();
  return any;
}

void SessionTable::NoteLosses() {
  for (const auto& session : All()) {
    // Kept values were computed from buffers of the same device.
    if (session->buffers().NoteLosses()) session->Reclaim();
  }
}

size_t SessionTable::size() const {
  MutexLock lock(mu_);
  return by_id_.size();
}

size_t SessionTable::in_use() const {
  MutexLock lock(mu_);
  return static_cast<size_t>(
      std::ranges::count_if(by_id_, [](const auto& entry) { return entry.second->users_ > 0; }));
}

size_t SessionTable::max_sessions() const {
  MutexLock lock(mu_);
  return options_.max_sessions;
}

std::vector<SessionView> SessionTable::List(std::string_view tenant, size_t most,
                                            size_t* left_out) const {
  std::vector<std::shared_ptr<Session>> all = All();
  if (!tenant.empty())
    std::erase_if(all, [&](const auto& session) { return session->tenant() != tenant; });
  std::vector<SessionView> out;
  out.reserve(all.size());
  for (const auto& session : all) {
    SessionView& view = out.emplace_back();
    view.id_prefix = session->id().substr(0, SessionView::kIdDigits);
    view.tenant = session->tenant();
    view.peer = session->peer();
    view.age = now_() - session->opened_;
    view.idle = Idle(*session);
    view.ttl = session->ttl();
    view.buffers = session->buffers().size();
    view.bytes = session->quota().used();
    view.calls = session->users_.load(std::memory_order_relaxed);
    const uint64_t run = session->run_.load(std::memory_order_relaxed);
    if (run == 0) continue;
    Digest first;
    std::memcpy(first.bytes.data(), &run, sizeof run);
    view.running = first.Hex().substr(0, 2 * sizeof run);
    view.running_for =
        Session::Clock::now().time_since_epoch() -
        Session::Clock::duration(session->run_since_.load(std::memory_order_relaxed));
  }
  std::ranges::sort(out, [](const SessionView& a, const SessionView& b) {
    return std::tie(b.bytes, a.id_prefix) < std::tie(a.bytes, b.id_prefix);
  });
  *left_out = out.size() - std::min(out.size(), most);
  out.resize(out.size() - *left_out);
  return out;
}

void SessionTable::Touch(Session& session) const {
  session.last_use_.store(now_().time_since_epoch().count(), std::memory_order_relaxed);
}

Session::Clock::duration SessionTable::Idle(const Session& session) const {
  return now_().time_since_epoch() -
         Session::Clock::duration(session.last_use_.load(std::memory_order_relaxed));
}

SessionUse SessionTable::Hold(const std::shared_ptr<Session>& session) {
  session->users_.fetch_add(1, std::memory_order_relaxed);
  Touch(*session);
  return SessionUse(session, this);
}

void SessionTable::Forget(Session& session) {
  session.closed_.store(true, std::memory_order_release);
  by_token_.erase(session.resume_token());
  by_side_token_.erase(session.side_token_);
  by_id_.erase(session.id());
  if (auto of = peers_.find(session.peer()); --of->second.sessions == 0) peers_.erase(of);
  metrics::Sessions().Add(-1);
}

void SessionTable::SweepForever() {
  for (;;) {
    {
      MutexLock lock(mu_);
      const auto until = Session::Clock::now() + kSweepInterval;
      if (lock.WaitUntil(stop_changed_, until, [this]() UOPD_REQUIRES(mu_) { return stop_; })) {
        return;
      }
    }
    Sweep();
  }
}

}  // namespace uopd::engine
