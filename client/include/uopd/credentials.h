// SPDX-License-Identifier: MIT
// Credentials: how a client identifies itself to the daemon. Plain data.
#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace uopd::client {

struct Credentials {
  // Sent with every call, unencrypted: use a Unix socket, loopback or a tunnel. Empty: no token is
  // sent; a daemon that requires a token then answers UNAUTHENTICATED.
  std::string token;

  // Reads the token from the first line of a file. NOT_FOUND: there is no such file.
  // INVALID_ARGUMENT: the line is empty or has bytes that no header may have.
  static absl::StatusOr<Credentials> FromFile(const std::string& path);
};

}  // namespace uopd::client
