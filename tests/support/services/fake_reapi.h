// SPDX-License-Identifier: MIT
// FakeReapi: a cache of the Remote Execution API in memory, in this process, that can be slow,
// full, forgetful or lying. How a right one behaves is seen with BuildGrid (service_process.h);
// this one is for what a right one would not do.
#pragma once
#include <grpcpp/server.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "build/bazel/remote/execution/v2/remote_execution.grpc.pb.h"
#include "core/base/mutex.h"
#include "google/bytestream/bytestream.grpc.pb.h"

namespace uopd::test {

namespace reapi = build::bazel::remote::execution::v2;

struct FakeReapiOptions {
  int64_t max_batch_bytes = 0;
  bool update_enabled = true;
  bool has_sha256 = true;
  bool moves_output = false;  // into blobs, when a result is put
  std::string certificates;   // folder of cert.pem and key.pem; empty: no TLS
};

class FakeReapi {
 public:
  explicit FakeReapi(const FakeReapiOptions& options = {});
  ~FakeReapi();

  int port() const { return port_; }
  // Each call from now on takes that long, or until its client gives up.
  void SetDelay(std::chrono::milliseconds delay) UOPD_EXCLUDES(mu_);
  // What writes and reads answer from now on; OK: what they should.
  void SetWriteStatus(const grpc::Status& status) UOPD_EXCLUDES(mu_);
  void SetReadStatus(const grpc::Status& status) UOPD_EXCLUDES(mu_);
  // Changes the bytes of a record on their way to a client.
  void SetSpoil(std::function<void(std::string&)> spoil) UOPD_EXCLUDES(mu_);
  // Changes a whole result on its way to a client.
  void SetSpoilResult(std::function<void(reapi::ActionResult&)> spoil) UOPD_EXCLUDES(mu_);
  void Clear() UOPD_EXCLUDES(mu_);       // as a server that lost its disk
  void ClearBlobs() UOPD_EXCLUDES(mu_);  // and keeps the results
  std::string last_authorization() UOPD_EXCLUDES(mu_);
  int calls() UOPD_EXCLUDES(mu_);
  size_t results() UOPD_EXCLUDES(mu_);
  size_t blobs() UOPD_EXCLUDES(mu_);
  int streams() UOPD_EXCLUDES(mu_);  // reads and writes of ByteStream

 private:
  struct Services;
  friend struct Services;
  // What each call begins with.
  void Begin(const grpc::ServerContext& context) UOPD_EXCLUDES(mu_);

  const FakeReapiOptions options_;
  int port_ = 0;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;

  Mutex mu_;
  std::chrono::milliseconds delay_ UOPD_GUARDED_BY(mu_){0};
  grpc::Status write_status_ UOPD_GUARDED_BY(mu_), read_status_ UOPD_GUARDED_BY(mu_);
  std::function<void(std::string&)> spoil_ UOPD_GUARDED_BY(mu_);
  std::function<void(reapi::ActionResult&)> spoil_result_ UOPD_GUARDED_BY(mu_);
  std::map<std::string, reapi::ActionResult> results_ UOPD_GUARDED_BY(mu_);
  std::map<std::string, std::string> blobs_ UOPD_GUARDED_BY(mu_);  // by hash
  std::string authorization_ UOPD_GUARDED_BY(mu_);
  int calls_ UOPD_GUARDED_BY(mu_) = 0;
  int streams_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::test
