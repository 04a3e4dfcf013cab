// SPDX-License-Identifier: MIT
// Connection: an Executor over gRPC, with one session on one daemon.
//
// Connect checks versions and opens the session. The destructor closes the session, which frees
// everything that the client has on the daemon, and ends calls that are not done with CANCELLED
// (Client::Sync waits for them). As long as the Connection lives, a thread of its own renews the
// lease, so a client may be idle for any time. Thread-safe.
//
// Errors carry the daemon's code and message. If a node of a graph is to blame, GetNode
// (core/base/status.h) returns it. If the transport fails, the session is resumed, and what was not
// answered is sent again; the daemon runs nothing twice. If the session is gone for good, because
// the daemon was restarted or because no call of this process has reached it for too long, another
// one is opened. What was on the daemon is lost: calls that use it fail with FAILED_PRECONDITION,
// which says what happened. All other calls go on, and new tensors are made in the new session.
//
// With a daemon on the same machine, reached by its Unix socket, the contents of large tensors go
// through memory that both share. If the daemon gives none, they go in messages.
//
// At most kMostUnanswered calls and kMostUnansweredBytes of their inputs are on the way. A call
// beyond that waits for room.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "uopd/credentials.h"
#include "uopd/executor.h"

namespace uopd::client {

struct ConnectOptions {
  // host:port or unix:PATH.
  std::string address = "127.0.0.1:50510";
  Credentials credentials;
  // Limit for each call, from the time when the daemon could begin with it. A first run of a graph
  // includes compilation. After it the call is DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::Minutes(10);
  // Requested time to live of the session without calls. Zero: the daemon's default.
  absl::Duration ttl = absl::ZeroDuration();
  std::string client_name = "libuopd-client 0.1";
  // Gets the lines that the daemon returns for DEBUG=1..7, on a thread of the connection. Null:
  // they go to standard error. The code of kernels (levels from 3 on) is asked for once for every
  // graph.
  std::function<void(std::string_view)> debug_text;
};

// A device of the daemon, as it was when the connection was made.
struct DeviceInfo {
  std::string name;  // "CPU:0"
  std::string kind, arch;
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;
  std::string unavailable_reason;  // empty if the device works
};

class Session;
class ChunkPool;
class Pipeline;

// Thread-safe.
//
// fork(): gRPC cannot be used in a child of a process that uses it. So a program that forks calls
// BeforeFork before fork(), which closes all connections of the process to the last thread, and
// AfterForkInParent in the parent, which opens them again: their sessions, tensors and calls in
// progress go on. Between the two no other call of the library may begin or run, except that
// threads may wait for futures. The child leaves the connections of its parent alone (it must not
// destroy them either), and may make connections of its own. pthread_atfork takes the functions.
// BeforeFork waits for connections that are being made, and until gRPC has shut down. If the
// program uses the same gRPC for itself, that is never so: BeforeFork waits one second, and Connect
// fails with FAILED_PRECONDITION in the child.
class Connection final : public Executor {
 public:
  static constexpr size_t kMostUnanswered = 1024, kMostUnansweredBytes = 32 << 20;

  static absl::StatusOr<std::shared_ptr<Connection>> Connect(ConnectOptions options);
  ~Connection() override;

  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  Answer Submit(Call call) override;
  Future Upload(uint64_t handle, std::string_view device,
                std::shared_ptr<const std::string> bytes) override;
  bool uploads_at_once() const override { return true; }
  Future UploadCopy(uint64_t handle, std::string_view device, std::string_view bytes) override;
  // Sends the SHA-256 of each content and a proof that this client has it (docs/protocol.md,
  // "Constants by content"), and the bytes of those that the daemon needs.
  absl::Status UploadContents(std::span<const Content> contents) override;
  void Free(std::vector<uint64_t> handles) override;
  Future Download(uint64_t handle, std::span<char> out) override;
  absl::Status Held(uint64_t handle) const override;
  void Cancel() override;
  Progress progress(bool ask_daemon) override;
  bool WaitForRoom(absl::Duration time) override;
  std::string_view default_device() const override {
    return devices_.empty() ? std::string_view() : std::string_view(devices_[0].name);
  }
  uint64_t max_message_bytes() const override;
  Traffic traffic() const override;
  std::weak_ptr<Driver> driver() const override;

  const std::string& address() const;
  // Build of the daemon.
  const std::string& server() const;
  const std::vector<DeviceInfo>& devices() const { return devices_; }

  // The session of the connection; internal.
  Session& session() { return *session_; }

 private:
  explicit Connection(std::unique_ptr<Session> session);
  // Null owner: the bytes are copied before the call returns.
  Future Send(uint64_t handle, std::string_view device, std::string_view bytes,
              std::shared_ptr<const std::string> maybe_owner);

  std::vector<DeviceInfo> devices_;
  std::atomic<uint64_t> execute_bytes_ = 0, upload_bytes_ = 0, other_bytes_ = 0;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ChunkPool> chunks_;
  std::shared_ptr<Pipeline> pipeline_;
};

}  // namespace uopd::client
