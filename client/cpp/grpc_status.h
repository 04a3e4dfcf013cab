// SPDX-License-Identifier: MIT
// From the wire's status to ours: code, message, and the details that say which node or what is
// missing. Internal.
#pragma once
#include <grpcpp/support/status.h>

#include "core/base/status.h"

namespace uopd::client {

// Status of a call, with the node to blame restored.
absl::Status FromGrpc(const grpc::Status& status);

// What a NOT_FOUND is about: "program", "session", "buffer", or nothing when the daemon did not
// say.
std::string MissingKind(const grpc::Status& status);

}  // namespace uopd::client
