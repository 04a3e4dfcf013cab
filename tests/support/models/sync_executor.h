// SPDX-License-Identifier: MIT
// SyncExecutor: an Executor whose calls are answered before they return, by functions that take and
// give messages of the protocol. For executors in process, and those that look at what is sent.
#pragma once
#include <cstring>
#include <string>
#include <utility>

#include "client/cpp/net/wire_call.h"
#include "uopd/executor.h"

namespace uopd::client {

class SyncExecutor : public Executor {
 public:
  // NOT_FOUND: the digest is unknown; the request comes again with the graph.
  virtual absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) = 0;
  virtual absl::Status UploadNow(uint64_t handle, std::string_view device,
                                 std::string_view bytes) = 0;
  virtual absl::StatusOr<std::string> DownloadNow(uint64_t handle, uint64_t bytes) = 0;

  // A loop is refused.
  Answer Submit(Call call) final {
    if (call.loop != nullptr) return {Future(absl::UnimplementedError("a loop")), nullptr};
    v1::ExecuteRequest request = ToWire(call);
    request.set_request_id(NewRequestId());
    auto response = Execute(request);
    const bool unknown = absl::IsNotFound(response.status());
    if (unknown) {
      request.set_graph(*call.graph);
      request.set_request_id(NewRequestId());
      response = Execute(request);
    }
    if (!response.ok()) return {Future(response.status()), nullptr};
    auto result = std::make_shared<CallResult>(FromWire(*response));
    result->report.graph_sent = unknown;
    return {Future(), std::move(result)};
  }
  Future Upload(uint64_t handle, std::string_view device,
                std::shared_ptr<const std::string> bytes) final {
    return Future(UploadNow(handle, device, *bytes));
  }
  Future Download(uint64_t handle, std::span<char> out) final {
    auto bytes = DownloadNow(handle, out.size());
    if (!bytes.ok()) return Future(bytes.status());
    if (bytes->size() != out.size()) return Future(absl::InternalError("a wrong size"));
    std::memcpy(out.data(), bytes->data(), out.size());
    return Future();
  }
  Traffic traffic() const override { return traffic_; }

 protected:
  Traffic traffic_;
};

}  // namespace uopd::client
