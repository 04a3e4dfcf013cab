// SPDX-License-Identifier: MIT
// Checks that gRPC uses its connections by the functions of server/net/guarded_socket.h.
//
// A gRPC that was linked in another way, or that reads by another function, would go around the
// guard and say nothing about it. So the server opens a connection to itself before it accepts
// others, and compares what its guard has seen with what it has sent.
#pragma once
#include <functional>

#include "core/base/status.h"

namespace uopd::rpc {

// `hand_over` gives a descriptor to the gRPC server, which owns it from then on and has started.
// FAILED_PRECONDITION: the guard did not see all that gRPC did.
absl::Status CheckGuard(const std::function<void(int fd)>& hand_over);

}  // namespace uopd::rpc
