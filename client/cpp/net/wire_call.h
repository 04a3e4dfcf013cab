// SPDX-License-Identifier: MIT
// Calls and their results as messages of the protocol.
#pragma once
#include "uopd/executor.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

v1::Options ToWire(const ExecutionOptions& options);
// The request without session, request id and graph. The data of arguments is copied.
v1::ExecuteRequest ToWire(const Call& call);
// The loop of a call without the call.
v1::RepeatRequest ToWire(const Loop& loop);
// Takes the data of the response.
CallResult FromWire(v1::ExecuteResponse& response);

}  // namespace uopd::client
