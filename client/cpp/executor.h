// SPDX-License-Identifier: MIT
// Executor: what the client library needs of a daemon. Connection implements it over gRPC; tests
// implement it in process.
//
// Used by one thread at a time. Several Clients of that thread may share an Executor. Calls run in
// order: a call sees the effects of all earlier calls.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

// Traffic of an Executor, in bytes of serialised messages.
struct Traffic {
  uint64_t execute_bytes = 0;
  uint64_t upload_bytes = 0;
  uint64_t other_bytes = 0;
  uint64_t total() const { return execute_bytes + upload_bytes + other_bytes; }
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Fills in the session. NOT_FOUND: the daemon does not know the digest.
  virtual absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) = 0;
  // Creates the buffer if its handle is new. An empty device means the daemon's default.
  virtual absl::Status Upload(uint64_t handle, std::string_view device, std::string_view bytes) = 0;
  virtual absl::StatusOr<std::string> Download(uint64_t handle, uint64_t bytes) = 0;

  // Of a message, in bytes.
  virtual uint64_t max_message_bytes() const { return 16 << 20; }

  // Numbers that no other buffer or request of the session has, also among several Clients.
  uint64_t NewHandle() { return next_handle_++; }
  uint64_t NewRequestId() { return next_request_++; }

  const Traffic& traffic() const { return traffic_; }

 protected:
  Traffic traffic_;

 private:
  uint64_t next_handle_ = 1;
  uint64_t next_request_ = 1;
};

// An Executor without a daemon, for clients that only build graphs (Export in tensor.h).
class OfflineExecutor final : public Executor {
 public:
  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest&) override { return Refused(); }
  absl::Status Upload(uint64_t, std::string_view, std::string_view) override { return Refused(); }
  absl::StatusOr<std::string> Download(uint64_t, uint64_t) override { return Refused(); }

 private:
  static absl::Status Refused() {
    return absl::FailedPreconditionError("this client has no daemon: it only builds graphs");
  }
};

}  // namespace uopd::client
