// SPDX-License-Identifier: MIT
// Addresses and connections of IPv4 for tests that open sockets themselves.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>

#include "core/base/unique_fd.h"

namespace uopd::test {

// `host` is a number such as 127.0.0.1. Port 0: any.
inline sockaddr_in Ipv4(const std::string& host, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &out.sin_addr);
  return out;
}

// "127.0.0.1:80".
inline sockaddr_in Ipv4(const std::string& host_port) {
  const size_t colon = host_port.rfind(':');
  return Ipv4(host_port.substr(0, colon), std::atoi(host_port.c_str() + colon + 1));
}

// A connection that does not block, from the address `from` to `host_port`. Empty: there is none.
inline UniqueFd ConnectFrom(const std::string& from, const std::string& host_port) {
  const sockaddr_in source = Ipv4(from, 0), target = Ipv4(host_port);
  UniqueFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(out.get(), reinterpret_cast<const sockaddr*>(&source), sizeof source) != 0 ||
      connect(out.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
    return UniqueFd();
  }
  fcntl(out.get(), F_SETFL, fcntl(out.get(), F_GETFL) | O_NONBLOCK);
  return out;
}

}  // namespace uopd::test
