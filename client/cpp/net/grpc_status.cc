// SPDX-License-Identifier: MIT
#include "client/cpp/net/grpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <functional>

#include "uopd/v1/uopd.pb.h"

namespace uopd::client {
namespace {

// Visits the length-delimited fields `number` of a message, without its descriptor. Used for
// google.rpc.Status, whose details are field 3.
void ForEachField(const std::string& bytes, int number,
                  const std::function<void(const std::string&)>& f) {
  google::protobuf::Empty message;
  if (!message.ParseFromString(bytes)) return;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      f(field.length_delimited());
  }
}

// Visits the packed details of a type, given the last part of its name.
void ForEachDetail(const grpc::Status& status, const std::string& type,
                   const std::function<void(const std::string&)>& f) {
  ForEachField(status.error_details(), 3, [&](const std::string& packed) {
    google::protobuf::Any any;
    if (any.ParseFromString(packed) && any.type_url().ends_with("/" + type)) f(any.value());
  });
}

}  // namespace

absl::Status WithNodeOf(absl::StatusCode code, std::string message, const v1::NodeError& error) {
  // The daemon's message names the node already; WithNode will name it again.
  const std::string mark = " (node %" + std::to_string(error.node()) + ": ";
  if (const size_t at = message.find(mark); at != std::string::npos) {
    const size_t end = message.find(error.text() + ")", at);
    message.erase(
        at, end == std::string::npos ? std::string::npos : end + error.text().size() + 1 - at);
  }
  return WithNode(absl::Status(code, message), {error.node(), error.text()});
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()),
                   status.error_message());  // the same numbers
  ForEachDetail(status, "uopd.v1.NodeError", [&](const std::string& bytes) {
    v1::NodeError error;
    if (error.ParseFromString(bytes)) out = WithNodeOf(out.code(), status.error_message(), error);
  });
  return out;
}

bool IsLeaving(const grpc::Status& status) {
  bool out = false;
  ForEachDetail(status, "google.rpc.RetryInfo", [&](const std::string&) { out = true; });
  return out && status.error_code() == grpc::UNAVAILABLE;
}

std::string MissingKind(const grpc::Status& status) {
  std::string kind;
  ForEachDetail(status, "uopd.v1.MissingError", [&](const std::string& bytes) {
    ForEachField(bytes, 1, [&](const std::string& text) { kind = text; });
  });
  return kind;
}

}  // namespace uopd::client
