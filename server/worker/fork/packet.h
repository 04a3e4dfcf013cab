// SPDX-License-Identifier: MIT
// Sends and receives one datagram with at most one descriptor over a Unix socket (SOCK_SEQPACKET,
// or the head of a message in a stream).
//
// Stateless. Calls are repeated after signals and never raise SIGPIPE.
#pragma once
#include <sys/socket.h>

#include <cstddef>
#include <span>

#include "core/base/unique_fd.h"

namespace uopd::worker {

// The results are those of send and recv: bytes, or -1 with errno. `fd` -1: no descriptor is sent.
ssize_t SendPacket(int socket, std::span<const std::byte> data, int fd, int flags);
// A received descriptor is put in `fd`, close-on-exec. More than one descriptor is an attempt to
// leak descriptors: all are closed and errno is EBADMSG.
ssize_t ReceivePacket(int socket, std::span<std::byte> data, UniqueFd& fd, int flags);

}  // namespace uopd::worker
