// SPDX-License-Identifier: MIT
// Recorder: a connection that keeps the answer to the last call.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "uopd/connection.h"

namespace uopd::perf {

class Recorder final : public client::Executor {
 public:
  explicit Recorder(std::shared_ptr<client::Connection> connection)
      : connection_(std::move(connection)) {}

  client::Answer Submit(client::Call call) override {
    return last_ = connection_->Submit(std::move(call));
  }
  client::Future Upload(uint64_t handle, std::string_view device,
                        std::shared_ptr<const std::string> bytes) override {
    return connection_->Upload(handle, device, std::move(bytes));
  }
  client::Future Download(uint64_t handle, std::span<char> out) override {
    return connection_->Download(handle, out);
  }

  uint64_t max_message_bytes() const override { return connection_->max_message_bytes(); }

  client::Connection& connection() { return *connection_; }
  // Of the last call. REQUIRES: it succeeded.
  const client::CallReport& report() const { return last_.result->report; }

 private:
  const std::shared_ptr<client::Connection> connection_;
  client::Answer last_;
};

}  // namespace uopd::perf
