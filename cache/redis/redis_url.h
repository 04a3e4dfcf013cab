// SPDX-License-Identifier: MIT
// Where the servers of a cluster tier are, as settings write it.
//
//   redis://[USER@]HOST[:PORT][/DATABASE]
//   rediss://...                              the same by TLS
//   redis+unix:///PATH[?db=DATABASE]
//   redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]...]/NAME[/DATABASE]    rediss+sentinel:// by
//                                                                           TLS
//
// A URL holds no password: settings are shown in logs and by --help. Passwords come from files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace uopd::cache {

struct RedisServer {
  std::string host;  // IPv6 addresses without brackets
  uint16_t port = 6379;
  bool operator==(const RedisServer&) const = default;
};

struct RedisUrl {
  std::vector<RedisServer> servers;  // one, or the sentinels; none with a unix socket
  std::string unix_path;
  std::string sentinel_name;  // of the watched server; empty: no sentinels
  std::string user;           // empty: the default user
  int database = 0;
  bool tls = false;
};

// INVALID_ARGUMENT: names the part that is wrong. The message never repeats what may be a password.
absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view url);

// "host:port", with brackets around an IPv6 address.
std::string Name(const RedisServer& server);

}  // namespace uopd::cache
