// SPDX-License-Identifier: MIT
// Where a cache of the Remote Execution API is, as settings write it.
//
//   reapi://[USER@]HOST:PORT[/INSTANCE]     plain
//   reapis://...                            the same by TLS
//
// The instance is the name that the server gives to one of its caches; it may have slashes. A URL
// holds no password.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cache/cluster/url_parts.h"

namespace uopd::cache {

struct ReapiUrl {
  HostPort server;
  std::string user;      // empty: none
  std::string instance;  // empty: the server's nameless one
  bool tls = false;
};

bool IsReapiUrl(std::string_view url);
// INVALID_ARGUMENT: names the part that is wrong, and never repeats what may be a password.
absl::StatusOr<ReapiUrl> ParseReapiUrl(std::string_view url);

}  // namespace uopd::cache
