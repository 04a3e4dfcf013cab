// SPDX-License-Identifier: MIT
// Session: one session on one daemon, and the calls of the protocol that have one answer. Internal
// to the library and uopctl: it speaks protobuf.
//
// Open checks versions and opens the session. The destructor closes it, which frees everything that
// the client has on the daemon. As long as the Session lives, a thread of its own renews the lease.
//
// Thread-safe. If the transport fails (UNAVAILABLE), the session is resumed, and calls that the
// daemon recognises by their request id are sent again. If the session is gone for good, calls fail
// with FAILED_PRECONDITION until OpenAnother. If a node of a graph is to blame, GetNode
// (core/base/status.h) returns it.
#pragma once
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "uopd/connection.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {

inline constexpr uint32_t kApiVersion = 1;  // that this client speaks

// Tries of a call while the daemon says that it is shutting down: about five seconds, in which
// another one may take its place.
inline constexpr int kTriesOfRestart = 9;

// Backoff: how long a client waits before it tries again. The wait doubles with each try, and half
// of it is random, so that the clients of a restarted daemon do not all come at the same time.
class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{50}, kLongest{2000};

  explicit Backoff(uint64_t seed) : random_(seed) {}

  // The time to wait before the next try.
  std::chrono::milliseconds Next() {
    const auto most = next_.count();
    next_ = std::min(next_ * 2, kLongest);
    std::uniform_int_distribution<int64_t> between(most / 2, most);
    return std::chrono::milliseconds(between(random_));
  }

 private:
  std::mt19937_64 random_;
  std::chrono::milliseconds next_ = kFirst;
};

// StubRef: the stub of a session, which another one may replace while calls go on. A call goes on
// with the stub that it began with; its context keeps the channel. Thread-safe.
class StubRef {
 public:
  using Stub = v1::UopdService::Stub;

  // Null after Set(nullptr).
  std::shared_ptr<Stub> get() const UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stub_;
  }
  std::shared_ptr<Stub> operator->() const { return get(); }
  void Set(std::shared_ptr<Stub> stub) UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::swap(stub_, stub);  // the old one ends behind the lock, with `stub`
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Stub> stub_ UOPD_GUARDED_BY(mutex_);
};

// Consecutive request ids.
struct RequestIds {
  uint64_t first = 0;  // 0: none
  uint32_t more = 0;   // behind the first
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(ConnectOptions options);
  // Only says Hello, and opens no session: for the queries alone. So it works where a daemon takes
  // no more sessions. Calls are not repeated when the transport fails.
  static absl::StatusOr<std::unique_ptr<Session>> Connect(ConnectOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The answer of the daemon when the session was opened: devices and limits.
  const v1::HelloResponse& hello() const { return hello_; }
  std::string id() const;
  uint64_t max_message_bytes() const { return max_message_bytes_.load(std::memory_order_relaxed); }
  const ConnectOptions& options() const { return options_; }

  // Fills in the session. NOT_FOUND: the daemon does not know the digest. The digest is the only
  // thing that is NOT_FOUND.
  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request);
  absl::StatusOr<v1::PrepareResponse> Prepare(v1::PrepareRequest& request);
  absl::Status Upload(uint64_t handle, std::string_view device, std::string_view bytes);
  absl::StatusOr<std::string> Download(uint64_t handle, uint64_t bytes);
  // Fills in the session. May be repeated, also after an error.
  absl::StatusOr<v1::OpenContentsResponse> OpenContents(v1::OpenContentsRequest& request);
  // The session of now, and the key of its daemon for proofs about contents. No key: the daemon is
  // an older one.
  struct Lease {
    std::string session_id, content_key;
  };
  Lease lease() const;
  // Ends the Executes of these request ids, see uopd.proto.
  absl::Status CancelExecute(RequestIds ids);
  // Waits for at most half a second.
  absl::StatusOr<v1::GetProgressResponse> GetProgress();
  // The queries (UOPD_QUERY in methods.def), by their names in the protocol. They need no session.
#define UOPD_UNARY(name, audience)
#define UOPD_QUERY(name, audience) \
  absl::StatusOr<v1::name##Response> name(const v1::name##Request& request = {});
#define UOPD_STREAM(name, audience)
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM

  // A bundle of the daemon's cache. `take` gets its bytes in order; an error of it ends the call.
  struct Exported {
    uint64_t entries = 0;
    uint64_t left_out = 0;  // too large for a bundle
  };
  absl::StatusOr<Exported> ExportCache(const v1::ExportCacheRequest& request,
                                       absl::FunctionRef<absl::Status(std::string_view)> take);
  // Sends a bundle to the daemon. `read` returns the next bytes, and none at the end; `answer` gets
  // what the daemon says about them. Not repeated when the transport fails.
  absl::Status ImportCache(bool dry_run, absl::FunctionRef<absl::StatusOr<std::string>()> read,
                           absl::FunctionRef<void(const v1::ImportCacheResponse&)> answer);

  // Watches a tuning operation until it is over. `take` gets the messages in order; an error of it
  // ends the call. So does context.TryCancel() of another thread, with CANCELLED. `context` is new.
  absl::Status WatchTune(grpc::ClientContext& context, const v1::WatchTuneRequest& request,
                         absl::FunctionRef<absl::Status(const v1::WatchTuneResponse&)> take);

  // For the Pipeline.

  std::shared_ptr<v1::UopdService::Stub> stub() { return stub_.get(); }
  // Later calls make a new connection to the address: the daemon at this one is shutting down, and
  // another may be there.
  void Reconnect();
  // Metadata of every call.
  void AddCredentials(grpc::ClientContext& context) const;
  // Where the daemon gives memory to share, and the token for it. Both are empty if the daemon
  // gives none, or if the token was taken before. Resume brings another token.
  struct Side {
    std::string suffix, token;
  };
  Side TakeSide();
  bool has_side() const { return has_side_.load(std::memory_order_relaxed); }
  enum class Resumed { kYes, kNotNow, kGone };
  struct Resumption {
    Resumed resumed;
    uint64_t last_sequence = 0;  // see OpenSessionResponse
    absl::Status why{};          // of kNotNow
  };
  // After a disconnect.
  Resumption Resume();
  // Another session in the place of one that is gone, with the same daemon or with the one that
  // serves the address now. Returns why the one before is gone, for whoever uses what it had:
  // FAILED_PRECONDITION. An error: there is none.
  struct Opened {
    absl::Status lost;
  };
  absl::StatusOr<Opened> OpenAnother();
  // Returns false if the session is being closed or paused.
  bool Sleep(std::chrono::milliseconds time);
  // Makes Sleep return. To be called before a thread that may sleep is joined.
  void StopSleeping();
  // The same until Continue.
  void StopWaiting();
  // Leaves nothing of gRPC and no thread until Continue. No call may be in progress or begin.
  void Pause();
  void Continue();
  // The error for the user.
  absl::Status Explained(const absl::Status& status, std::string_view missing_kind) const;
  // The error of an Execute whose argument the daemon does not know, which the library should have
  // prevented.
  static absl::Status MissingBuffer(const absl::Status& status);
  // Code of kernels does not change from run to run, so it is asked for once for every graph.
  void AskForCodeOnce(v1::ExecuteRequest& request);
  void ShowDebugText(const v1::ExecuteRequest& request, const v1::ExecuteResponse& response);

 private:
  class Retry;

  Session() = default;
  void Fill(grpc::ClientContext& context) const;
  void FillFor(grpc::ClientContext& context, std::chrono::milliseconds timeout) const;
  template <class Request, class Response>
  grpc::Status CallOnce(grpc::Status (v1::UopdService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*),
                        const Request& request, Response* response, bool again);
  absl::Status Explained(const grpc::Status& status) const;
  void RenewUntilClosed();
  void OpenChannel();
  // `again`: also at another daemon, if the one that is asked is shutting down.
  absl::StatusOr<v1::HelloResponse> SayHello(bool again);
  absl::Status OpenOne(uint64_t ttl_ms, v1::OpenSessionResponse& response, bool again);
  // What every answer to OpenSession brings.
  void Note(const v1::OpenSessionResponse& response);

  ConnectOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  StubRef stub_;
  v1::HelloResponse hello_;  // when the first session was opened
  std::atomic<uint64_t> max_message_bytes_{0};
  std::chrono::milliseconds ttl_{0};

  mutable Mutex mutex_;
  std::condition_variable wake_;
  bool closing_ UOPD_GUARDED_BY(mutex_) = false, paused_ UOPD_GUARDED_BY(mutex_) = false;
  // The daemon that has the session (HelloResponse.instance), and the session.
  std::string instance_ UOPD_GUARDED_BY(mutex_), session_id_ UOPD_GUARDED_BY(mutex_);
  std::string resume_token_ UOPD_GUARDED_BY(mutex_);
  std::string content_key_ UOPD_GUARDED_BY(mutex_);  // HelloResponse.content_key
  Side side_ UOPD_GUARDED_BY(mutex_);
  std::atomic<bool> has_side_{false};  // the daemon gave a token at least once
  // Digests of graphs whose code has been shown.
  absl::flat_hash_set<std::string> explained_ UOPD_GUARDED_BY(mutex_);
  std::thread renewer_;
};

}  // namespace uopd::client
