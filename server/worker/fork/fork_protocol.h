// SPDX-License-Identifier: MIT
// The messages between the daemon and its fork server, over a SOCK_SEQPACKET socket.
//
//   fork server ─── Reply{0, kHello} ──────────────────────────► daemon      once, when it is up
//   daemon ──────── RequestHead{kSpawn}, setup, a socket ──────► fork server
//   fork server ─── Reply{error, pid}, pidfd ──────────────────► daemon
//   daemon ──────── RequestHead{kReap, pid} ───────────────────► fork server
//   fork server ─── Reply{error, wait status} ─────────────────► daemon
//
// One request at a time. Both ends are the same program on the same machine, so their layouts are
// equal.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace uopd::worker {

enum class Request : int32_t { kSpawn, kReap };

// The head of a request. For kSpawn the encoded WorkerSetup follows, with the worker's end of a
// socket.
struct RequestHead {
  Request request = Request::kSpawn;
  pid_t pid = 0;
};

struct Reply {
  int32_t error = 0;  // errno
  int32_t value = 0;
};

inline constexpr int32_t kHello = 0x57504f55;
inline constexpr size_t kMaxRequest = 16 << 10;
inline constexpr char kForkServerFlag[] = "--fork-server";
inline constexpr int kForkServerSocket = 3;  // the descriptor of the fork server's end

}  // namespace uopd::worker
