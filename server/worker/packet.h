// SPDX-License-Identifier: MIT
// One datagram with at most one descriptor over a Unix socket (SOCK_SEQPACKET or the head of a
// stream's message).
//
// Stateless. Calls are retried after signals and never raise SIGPIPE.
#pragma once
#include <sys/socket.h>

#include <cstddef>
#include <span>

#include "core/base/unique_fd.h"

namespace uopd::worker {

// What send and recv return: bytes, or -1 with errno. `fd` of -1 sends none.
ssize_t SendPacket(int socket, std::span<const std::byte> data, int fd, int flags);
// A descriptor that came along is put in `fd`, close-on-exec. More than one is an attempt to leak:
// all are closed and errno is EBADMSG.
ssize_t ReceivePacket(int socket, std::span<std::byte> data, UniqueFd& fd, int flags);

}  // namespace uopd::worker
