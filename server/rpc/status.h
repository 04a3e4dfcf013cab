// SPDX-License-Identifier: MIT
// The only place where an absl::Status becomes what gRPC sends. Pure functions.
#pragma once
#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

// Same code and message; the node or the missing thing to blame as a detail of a google.rpc.Status.
grpc::Status ToGrpc(const absl::Status& status);
// The same as the fields of a PipelineResponse.
void FillError(const absl::Status& status, v1::PipelineResponse* out);

}  // namespace uopd::rpc
