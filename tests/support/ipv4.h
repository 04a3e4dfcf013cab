// SPDX-License-Identifier: MIT
// Socket addresses of IPv4 for tests that open sockets themselves.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace uopd::test {

// `host` is a number such as 127.0.0.1. Port 0: any.
inline sockaddr_in Ipv4(const std::string& host, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &out.sin_addr);
  return out;
}

}  // namespace uopd::test
