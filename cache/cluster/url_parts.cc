// SPDX-License-Identifier: MIT
#include "cache/cluster/url_parts.h"

#include <charconv>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {

std::string_view CutAt(std::string_view& rest, char mark) {
  const size_t at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

bool ReadUrlNumber(std::string_view text, int least, int most, int& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end && number >= least && number <= most;
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text, uint16_t port) {
  HostPort out{.host = {}, .port = port};
  std::string_view host = text, number;
  if (text.starts_with('[')) {  // an IPv6 address
    const size_t end = text.find(']');
    if (end == std::string_view::npos)
      return Invalid("The URL of the cluster tier has a '[' without a ']'");
    host = text.substr(1, end - 1);
    number = text.substr(end + 1);
    if (!number.empty() && number.front() != ':')
      return Invalid("The URL of the cluster tier has text between ']' and the port");
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    number = text.substr(colon);
  }
  if (host.empty()) return Invalid("The URL of the cluster tier names no host");
  out.host = host;
  if (number.empty() && port == 0) return Invalid("The URL of the cluster tier names no port");
  if (!number.empty()) {
    int value = 0;
    if (!ReadUrlNumber(number.substr(1), 1, 65535, value))
      return Invalid("The port in the URL of the cluster tier is not a number from 1 to 65535");
    out.port = static_cast<uint16_t>(value);
  }
  return out;
}

absl::StatusOr<std::string> CutUser(std::string_view& rest) {
  const size_t at = rest.rfind('@');
  if (at == std::string_view::npos) return std::string();
  std::string user(rest.substr(0, at));
  if (user.find(':') != std::string::npos)
    return Invalid(
        "The URL of the cluster tier must not hold a password; cache.cluster_password_file names "
        "its file");
  rest.remove_prefix(at + 1);
  return user;
}

std::string HostPortText(std::string_view host, uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? Cat("[", host, "]:", port) : Cat(host, ":", port);
}

}  // namespace uopd::cache
