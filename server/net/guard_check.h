// SPDX-License-Identifier: MIT
// Checks that an HTTP/2 server (gRPC) uses its connections by the functions of guarded_socket.h.
//
// A library that was linked in another way, or that reads by another function, would go around the
// guard and say nothing about it. So the program opens a connection to its own server before it
// accepts others, and compares what the guard has seen with what was sent.
#pragma once
#include <functional>

#include "core/base/status.h"

namespace uopd::net {

// `hand_over` gives a descriptor to the server, which owns it from then on and has started.
// FAILED_PRECONDITION: the guard did not see all that the server did.
absl::Status CheckGuard(const std::function<void(int fd)>& hand_over);

}  // namespace uopd::net
