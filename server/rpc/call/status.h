// SPDX-License-Identifier: MIT
// The only place that converts an absl::Status to what gRPC sends. Pure functions.
#pragma once
#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

// The same code and message. The node at fault, or the missing thing, is a detail of a
// google.rpc.Status.
grpc::Status ToGrpc(const absl::Status& status);
// The same as the fields of a PipelineResponse.
void FillError(const absl::Status& status, v1::PipelineResponse* out);

}  // namespace uopd::rpc
