// SPDX-License-Identifier: MIT
#include "cache/redis/redis_url.h"

#include <utility>

#include "cache/cluster/url_parts.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr uint16_t kSentinelPort = 26379;
constexpr int kMaxDatabase = 65535;

absl::StatusOr<RedisServer> ParseServer(std::string_view text, uint16_t port) {
  UOPD_ASSIGN(HostPort server, ParseHostPort(text, port));
  return RedisServer{.host = std::move(server.host), .port = server.port};
}

absl::Status ParseDatabase(std::string_view text, RedisUrl& url) {
  if (text.empty() || ReadUrlNumber(text, 0, kMaxDatabase, url.database)) return absl::OkStatus();
  return Invalid(
      Cat("The database in the URL of the cluster tier is not a number from 0 to ", kMaxDatabase));
}

}  // namespace

absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view text) {
  RedisUrl url;
  const size_t scheme_end = text.find("://");
  const std::string_view scheme = text.substr(0, scheme_end);
  std::string_view rest =
      scheme_end == std::string_view::npos ? std::string_view() : text.substr(scheme_end + 3);
  const bool sentinel = scheme == "redis+sentinel" || scheme == "rediss+sentinel";
  url.tls = scheme.starts_with("rediss");
  if (scheme == "redis+unix") {
    url.unix_path = CutAt(rest, '?');
    if (!url.unix_path.starts_with('/'))
      return Invalid("The URL of the cluster tier names no absolute path of a socket");
    if (!rest.empty() && !rest.starts_with("db="))
      return Invalid(
          "The URL of the cluster tier may have ?db=NUMBER behind the path, and nothing else");
    UOPD_TRY(ParseDatabase(rest.empty() ? rest : rest.substr(3), url));
    return url;
  }
  if (!sentinel && scheme != "redis" && scheme != "rediss") {
    return Invalid(
        "The URL of the cluster tier must begin with redis://, rediss://, redis+unix://, "
        "redis+sentinel://, rediss+sentinel://, reapi:// or reapis://");
  }
  std::string_view place = CutAt(rest, '/');
  UOPD_ASSIGN(url.user, CutUser(place));
  const uint16_t port = sentinel ? kSentinelPort : RedisServer().port;
  if (sentinel) {
    while (!place.empty()) {
      UOPD_ASSIGN(RedisServer server, ParseServer(CutAt(place, ','), port));
      url.servers.push_back(std::move(server));
    }
    url.sentinel_name = CutAt(rest, '/');
    if (url.sentinel_name.empty())
      return Invalid("The URL of the cluster tier names no server for the sentinels");
  } else {
    UOPD_ASSIGN(RedisServer server, ParseServer(place, port));
    url.servers.push_back(std::move(server));
  }
  if (url.servers.empty()) return Invalid("The URL of the cluster tier names no host");
  UOPD_TRY(ParseDatabase(rest, url));
  return url;
}

std::string Name(const RedisServer& server) { return HostPortText(server.host, server.port); }

}  // namespace uopd::cache
