// SPDX-License-Identifier: MIT
// Addresses to listen at, as the settings spell them.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::net {

struct Address {
  enum Kind { kTcp, kUnix, kAbstract };
  Kind kind = kTcp;
  std::string host;  // kTcp: a name, an IPv4 address, or an IPv6 address without brackets
  int port = 0;      // kTcp; 0: a free one
  std::string path;  // kUnix: of the socket file; kAbstract: the name
};

// HOST:PORT, [IPV6]:PORT, unix:PATH (also unix:///PATH) or unix-abstract:NAME. INVALID_ARGUMENT
// names what is wrong with `text`: a port that is missing or no number from 0 to 65535, a path that
// is too long for a socket.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// As ParseAddress reads it.
std::string ToText(const Address& address);

// True for addresses that only this machine reaches: of sockets, localhost, 127.x.x.x, ::1.
bool IsLocal(const Address& address);

}  // namespace uopd::net
