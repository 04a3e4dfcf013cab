// SPDX-License-Identifier: MIT
#include "server/rpc/call/status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/util/time_util.h>

#include "google/rpc/status.pb.h"
#include "server/engine/base/not_found.h"
#include "server/engine/base/shutting_down.h"

namespace uopd::rpc {
namespace {

// A message is sent several times in HTTP/2 headers, which are limited (8 KiB by default).
constexpr size_t kMaxMessage = 1500;
constexpr size_t kMaxNodeText = 1000;

// Printable ASCII: text of a status field must be UTF-8, and parts of a message come from graphs.
std::string Clean(std::string text, size_t max_size) {
  if (text.size() > max_size) text = text.substr(0, max_size) + "...";
  for (char& c : text) {
    if ((c < ' ' && c != '\n') || c > '~') c = '?';
  }
  return text;
}

v1::NodeError ToProto(const NodeRef& node) {
  v1::NodeError out;
  out.set_node(node.index);
  out.set_text(Clean(node.text, kMaxNodeText));
  return out;
}

// A google.rpc.RetryInfo, which has a Duration as its only field, number 1. Written by hand: its
// .proto is not here.
google::protobuf::Any RetryInfo() {
  using google::protobuf::util::TimeUtil;
  const std::string delay =
      TimeUtil::MillisecondsToDuration(engine::kRetryAfter.count()).SerializeAsString();
  constexpr char kFirstField = (1 << 3) | 2;  // its number, and that bytes follow
  google::protobuf::Any out;
  out.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  out.set_value(std::string{kFirstField, static_cast<char>(delay.size())} + delay);
  return out;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());  // the same numbers
  const std::string message = Clean(StatusText(status), kMaxMessage);
  const auto node = GetNode(status);
  const std::string missing = engine::MissingKind(status);
  const bool leaving = engine::IsShuttingDown(status);
  if (!node && missing.empty() && !leaving) return {code, message};
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  if (node) details.add_details()->PackFrom(ToProto(*node));
  if (!missing.empty()) {
    v1::MissingError error;
    error.set_kind(missing);
    details.add_details()->PackFrom(error);
  }
  if (leaving) *details.add_details() = RetryInfo();
  return {code, message, details.SerializeAsString()};
}

void FillError(const absl::Status& status, v1::PipelineResponse* out) {
  if (status.ok()) return;
  out->set_code(static_cast<int32_t>(status.code()));
  out->set_message(Clean(StatusText(status), kMaxMessage));
  if (const auto node = GetNode(status)) *out->mutable_node_error() = ToProto(*node);
  const std::string missing = engine::MissingKind(status);
  if (!missing.empty()) out->mutable_missing_error()->set_kind(missing);
  if (engine::IsShuttingDown(status))
    out->set_retry_after_ms(static_cast<uint32_t>(engine::kRetryAfter.count()));
}

}  // namespace uopd::rpc
