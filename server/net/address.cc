// SPDX-License-Identifier: MIT
#include "server/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>

#include "core/base/text.h"

namespace uopd::net {
namespace {

constexpr std::string_view kUnixPrefix = "unix:", kAbstractPrefix = "unix-abstract:";
constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Bad(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(Cat("address (", text, ") ", why));
}

absl::StatusOr<Address> ParseSocket(std::string_view text, Address::Kind kind,
                                    std::string_view path) {
  if (kind == Address::kUnix && path.starts_with("//")) path.remove_prefix(2);
  if (path.empty()) return Bad(text, "names no socket");
  if (path.size() > kMaxPath) {
    return Bad(text, Cat("is longer than a socket's name can be (", kMaxPath, " bytes)"));
  }
  if (path.find('\0') != std::string_view::npos) return Bad(text, "has a zero byte");
  return Address{.kind = kind, .path = std::string(path)};
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  if (text.starts_with(kAbstractPrefix)) {
    return ParseSocket(text, Address::kAbstract, text.substr(kAbstractPrefix.size()));
  }
  if (text.starts_with(kUnixPrefix)) {
    return ParseSocket(text, Address::kUnix, text.substr(kUnixPrefix.size()));
  }
  Address out;
  std::string_view rest;  // from the colon before the port
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Bad(text, "has no ] after its IPv6 address");
    out.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    in6_addr parsed{};
    if (inet_pton(AF_INET6, out.host.c_str(), &parsed) != 1) {
      return Bad(text, "has no IPv6 address between its brackets");
    }
  } else {
    const size_t colon = text.find(':');
    out.host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
    if (rest.find(':', 1) != std::string_view::npos && !rest.empty()) {
      return Bad(text, "has several colons; an IPv6 address stands in brackets: [::1]:50510");
    }
  }
  if (out.host.empty()) return Bad(text, "has no host");
  if (rest.empty() || rest == ":") return Bad(text, "has no port; host:0 takes a free one");
  const char* const end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data() + 1, end, out.port);
  if (rest[0] != ':' || error != std::errc() || stop != end || out.port < 0 || out.port > 65535) {
    return Bad(text, "has a port that is no number from 0 to 65535");
  }
  return out;
}

std::string ToText(const Address& address) {
  if (address.kind == Address::kUnix) return Cat(kUnixPrefix, address.path);
  if (address.kind == Address::kAbstract) return Cat(kAbstractPrefix, address.path);
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? Cat("[", address.host, "]:", address.port) : Cat(address.host, ":", address.port);
}

bool IsLocal(const Address& address) {
  if (address.kind != Address::kTcp) return true;
  if (address.host == "localhost" || address.host == "::1") return true;
  in_addr parsed{};
  return inet_pton(AF_INET, address.host.c_str(), &parsed) == 1 &&
         ntohl(parsed.s_addr) >> 24 == 127;
}

}  // namespace uopd::net
