// SPDX-License-Identifier: MIT
#include "cache/redis/redis_url.h"

#include <charconv>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr uint16_t kSentinelPort = 26379;
constexpr int kMaxDatabase = 65535;

bool ReadNumber(std::string_view text, int least, int most, int& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end && number >= least && number <= most;
}

// What stands before the first `mark`; `rest` becomes what stands behind it. The whole text if there is no mark.
std::string_view Cut(std::string_view& rest, char mark) {
  const size_t at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

absl::StatusOr<RedisServer> ParseServer(std::string_view text, uint16_t port) {
  RedisServer server{.port = port};
  std::string_view host = text, number;
  if (text.starts_with('[')) {  // an IPv6 address
    const size_t end = text.find(']');
    if (end == std::string_view::npos)
      return Invalid("The URL of the cluster tier has a '[' without a ']'.");
    host = text.substr(1, end - 1);
    number = text.substr(end + 1);
    if (!number.empty() && number.front() != ':')
      return Invalid("The URL of the cluster tier has text between ']' and the port.");
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    number = text.substr(colon);
  }
  if (host.empty()) return Invalid("The URL of the cluster tier names no host.");
  server.host = host;
  if (!number.empty()) {
    int value = 0;
    if (!ReadNumber(number.substr(1), 1, 65535, value))
      return Invalid("The port in the URL of the cluster tier is not a number from 1 to 65535.");
    server.port = static_cast<uint16_t>(value);
  }
  return server;
}

absl::Status ParseDatabase(std::string_view text, RedisUrl& url) {
  if (text.empty() || ReadNumber(text, 0, kMaxDatabase, url.database)) return absl::OkStatus();
  return Invalid(Cat("The database in the URL of the cluster tier is not a number from 0 to ",
                     kMaxDatabase, "."));
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
    url.unix_path = Cut(rest, '?');
    if (!url.unix_path.starts_with('/'))
      return Invalid("The URL of the cluster tier names no absolute path of a socket.");
    if (!rest.empty() && !rest.starts_with("db="))
      return Invalid(
          "The URL of the cluster tier may have ?db=NUMBER behind the path, and nothing else.");
    UOPD_TRY(ParseDatabase(rest.empty() ? rest : rest.substr(3), url));
    return url;
  }
  if (!sentinel && scheme != "redis" && scheme != "rediss") {
    return Invalid(
        "The URL of the cluster tier must begin with redis://, rediss://, redis+unix://, "
        "redis+sentinel:// or "
        "rediss+sentinel://.");
  }
  std::string_view place = Cut(rest, '/');
  if (const size_t at = place.rfind('@'); at != std::string_view::npos) {
    url.user = place.substr(0, at);
    if (url.user.find(':') != std::string::npos)
      return Invalid(
          "The URL of the cluster tier must not hold a password; cache.cluster_password_file names "
          "its file.");
    place.remove_prefix(at + 1);
  }
  const uint16_t port = sentinel ? kSentinelPort : RedisServer().port;
  if (sentinel) {
    while (!place.empty()) {
      UOPD_ASSIGN(RedisServer server, ParseServer(Cut(place, ','), port));
      url.servers.push_back(std::move(server));
    }
    url.sentinel_name = Cut(rest, '/');
    if (url.sentinel_name.empty())
      return Invalid("The URL of the cluster tier names no server for the sentinels.");
  } else {
    UOPD_ASSIGN(RedisServer server, ParseServer(place, port));
    url.servers.push_back(std::move(server));
  }
  if (url.servers.empty()) return Invalid("The URL of the cluster tier names no host.");
  UOPD_TRY(ParseDatabase(rest, url));
  return url;
}

std::string Name(const RedisServer& server) {
  const bool v6 = server.host.find(':') != std::string::npos;
  return v6 ? Cat("[", server.host, "]:", server.port) : Cat(server.host, ":", server.port);
}

}  // namespace uopd::cache
