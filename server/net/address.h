// SPDX-License-Identifier: MIT
// Addresses to listen at, in the spelling of the settings.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::net {

struct Address {
  enum Kind { kTcp, kUnix, kAbstract };
  Kind kind = kTcp;
  std::string host;  // kTcp: a name, an IPv4 address, or an IPv6 address without brackets
  int port = 0;      // kTcp; 0: any free port
  std::string path;  // kUnix: path of the socket file; kAbstract: the name
};

// Parses HOST:PORT, [IPV6]:PORT, unix:PATH (also unix:///PATH) or unix-abstract:NAME.
// INVALID_ARGUMENT names what is wrong with `text`. Examples: no port, a port that is no number
// from 0 to 65535, a path that is too long for a socket.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The text from which ParseAddress reads the same address.
std::string ToText(const Address& address);

// True if only this machine can reach the address: Unix sockets, localhost, 127.x.x.x, ::1.
bool IsLocal(const Address& address);

}  // namespace uopd::net
