// SPDX-License-Identifier: MIT
// Lets a FrameGuard see what a library reads from a socket.
//
// gRPC reads its connections itself, by recvmsg of the C library, and has no place where its bytes
// could be looked at. A relay would cost every message a hop more. So this program defines recvmsg,
// sendmsg and close: its functions stand before those of the C library, for gRPC too. They call the
// system as those do. In between, the bytes of a guarded socket pass its guard where they are,
// before gRPC sees them. A socket whose guard refuses is shut down, and its reader is told
// ECONNRESET. For all other descriptors a look at one word of memory is all that is added.
//
// A guard ends with close(). A child process between fork and exec must not close guarded sockets:
// they have FD_CLOEXEC.
//
// Whether gRPC is bound to these functions is decided by the linker, so the server checks it at its
// start (server/net/guard_check.h).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/net/frame_guard.h"
#include "server/net/unfinished_messages.h"

namespace uopd::net {

struct GuardedBytes {
  uint64_t received = 0;
  FrameGuard::Clock::time_point last_received;
  bool sent = false;  // the other direction was used
  // The peer has ended the connection, or the guard has, or it broke. Otherwise its reader gave it
  // up.
  bool ended = false;
};

struct GuardEvents {
  // The guard refuses what came, or all connections together hold too much. Called at most once, by
  // a thread that reads: this connection or another one.
  std::function<void(const char* reason)> on_refused;
  // Called by the thread that closes the socket, after it is closed.
  std::function<void(const GuardedBytes&)> on_closed;
};

// The peer of a connection, and the bound that the connection shares with others.
struct GuardedPeer {
  std::string name;
  std::shared_ptr<UnfinishedMessages> unfinished;  // null: its messages are not bounded
};

// From now on until close(fd). Nothing was read from `fd` before. False: the number is too large.
bool GuardSocket(int fd, const FrameLimits& limits, GuardEvents events, GuardedPeer peer = {});

}  // namespace uopd::net
