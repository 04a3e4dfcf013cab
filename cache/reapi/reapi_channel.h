// SPDX-License-Identifier: MIT
// ReapiChannel: the calls of the Remote Execution API to one server, each with a deadline, and what
// the server can do.
//
// The server is asked what it can do at the first call, and again after a failure: it may be
// another one by then. Messages of errors name the call and the code, never the server's words,
// which may repeat what was sent. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "build/bazel/remote/execution/v2/remote_execution.grpc.pb.h"
#include "cache/base/wait/wait.h"
#include "cache/reapi/reapi_url.h"
#include "core/base/mutex.h"
#include "google/bytestream/bytestream.grpc.pb.h"

namespace uopd::cache {

namespace reapi = build::bazel::remote::execution::v2;

struct ReapiOptions {
  ReapiUrl url;
  // With a user: HTTP's basic authentication; without: a bearer token; empty: neither.
  std::string password;
  // PEM texts, for url.tls. Empty: the machine's certificates; no certificate of this client.
  std::string ca, cert, key;
  size_t max_record_bytes = size_t{256} << 20;  // of larger ones nothing is read
};

// What this client may do with the server.
struct ReapiLimits {
  bool may_update = false;  // results of actions
  size_t batch_bytes = 0;   // of the blobs in one message
};

class ReapiChannel {
 public:
  explicit ReapiChannel(const ReapiOptions& options);

  // UNAVAILABLE: the server does not answer, or has no SHA-256.
  absl::StatusOr<ReapiLimits> Limits(Deadline deadline) UOPD_EXCLUDES(mu_);
  // Runs `call(context)`, which returns a grpc::Status. Errors: NOT_FOUND; RESOURCE_EXHAUSTED: the
  // server answers, and does not do this; DEADLINE_EXCEEDED and UNAVAILABLE for all else.
  template <class Call>
  absl::Status Run(const char* name, Deadline deadline, const Call& call) {
    grpc::ClientContext context;
    Prepare(context, deadline);
    return StatusOf(name, call(context));
  }

  const std::string& instance() const { return options_.url.instance; }
  size_t max_record_bytes() const { return options_.max_record_bytes; }
  reapi::ActionCache::Stub& actions() { return *actions_; }
  reapi::ContentAddressableStorage::Stub& blobs() { return *blobs_; }
  google::bytestream::ByteStream::Stub& streams() { return *streams_; }

 private:
  void Prepare(grpc::ClientContext& context, Deadline deadline) const;
  absl::Status StatusOf(const char* name, const grpc::Status& status) UOPD_EXCLUDES(mu_);

  const ReapiOptions options_;
  const std::string authorization_;  // the header; empty: none
  const std::unique_ptr<reapi::Capabilities::Stub> capabilities_;
  const std::unique_ptr<reapi::ActionCache::Stub> actions_;
  const std::unique_ptr<reapi::ContentAddressableStorage::Stub> blobs_;
  const std::unique_ptr<google::bytestream::ByteStream::Stub> streams_;
  Mutex mu_;
  bool asked_ UOPD_GUARDED_BY(mu_) = false;
  ReapiLimits limits_ UOPD_GUARDED_BY(mu_);

  ReapiChannel(const ReapiOptions& options, const std::shared_ptr<grpc::Channel>& channel);
};

// Blobs of a cache of the Remote Execution API: small ones in one message, large ones as a stream.
// The name of the bytes.
reapi::Digest DigestOf(std::string_view bytes);

// The bytes that the server has under the name, which need not be those of the digest: callers
// check what they say. Never more than channel.max_record_bytes(). NOT_FOUND, or an error of
// ReapiChannel::Run.
absl::StatusOr<std::string> ReadBlob(ReapiChannel& channel, const reapi::Digest& digest,
                                     Deadline deadline);
// Errors of ReapiChannel::Run.
absl::Status WriteBlob(ReapiChannel& channel, const reapi::Digest& digest, std::string_view bytes,
                       Deadline deadline);

}  // namespace uopd::cache
