// SPDX-License-Identifier: MIT
// Recorder: a connection that keeps what the daemon said about the last run.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/connection.h"

namespace uopd::perf {

class Recorder final : public client::Executor {
 public:
  explicit Recorder(std::shared_ptr<client::Connection> connection)
      : connection_(std::move(connection)) {}

  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) override {
    auto response = connection_->Execute(request);
    if (response.ok()) timings_ = response->timings(), cache_ = response->cache();
    return response;
  }
  absl::Status Upload(uint64_t handle, std::string_view device, std::string_view bytes) override {
    return connection_->Upload(handle, device, bytes);
  }
  absl::StatusOr<std::string> Download(uint64_t handle, uint64_t bytes) override {
    return connection_->Download(handle, bytes);
  }

  uint64_t max_message_bytes() const override { return connection_->max_message_bytes(); }

  client::Connection& connection() { return *connection_; }
  // Of the last Execute that succeeded.
  const v1::Timings& timings() const { return timings_; }
  const v1::CacheOutcome& cache() const { return cache_; }

 private:
  const std::shared_ptr<client::Connection> connection_;
  v1::Timings timings_;
  v1::CacheOutcome cache_;
};

}  // namespace uopd::perf
