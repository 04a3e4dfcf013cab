// SPDX-License-Identifier: MIT
// Converts a gRPC status into an absl::Status: code, message, and the details that name the node to
// blame or the kind of thing that is missing. Internal to the library.
#pragma once
#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

// The status of a call. If its details name a node to blame, GetNode returns that node.
absl::Status FromGrpc(const grpc::Status& status);
// An error of the daemon whose message names the node `error`. GetNode returns that node.
absl::Status WithNodeOf(absl::StatusCode code, std::string message, const v1::NodeError& error);

// True if the daemon says that the call was not begun and may be sent again: it is shutting down.
bool IsLeaving(const grpc::Status& status);

// What a NOT_FOUND is about: "program", "session" or "buffer"; empty if the daemon did not say.
std::string MissingKind(const grpc::Status& status);

}  // namespace uopd::client
