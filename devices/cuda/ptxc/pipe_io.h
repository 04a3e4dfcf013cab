// SPDX-License-Identifier: MIT
// Whole reads from and writes to pipes and sockets, for both ends of uopd-ptxc. Needs nothing but
// POSIX, since that program links nothing of uopd. Stateless; the calling thread waits.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace uopd::devices::cuda {

// Writes all of `data` by write_some(at, n), which is write() or like it. False: an error, in
// errno.
template <class WriteSome>
bool WriteFully(const void* data, size_t bytes, WriteSome write_some) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write_some(at, bytes);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += n, bytes -= static_cast<size_t>(n);
  }
  return true;
}

// False: an error, or the other end has closed before `bytes` came.
inline bool ReadFully(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = read(fd, at, bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) at += n, bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace uopd::devices::cuda
