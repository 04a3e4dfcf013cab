// SPDX-License-Identifier: MIT
#include "core/base/config/kubernetes_variable.h"

#include <algorithm>
#include <cstddef>

namespace uopd::config {
namespace {

constexpr std::string_view kProtocols[] = {"tcp", "udp", "sctp"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, IsDigit);
}

// Of either family.
bool IsIpAddress(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return IsDigit(c) || c == '.' || c == ':' || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

bool IsUrl(std::string_view text) {
  return std::ranges::any_of(kProtocols, [&](std::string_view protocol) {
    return text.starts_with(protocol) && text.substr(protocol.size()).starts_with("://");
  });
}

bool IsProtocol(std::string_view text) {
  return std::ranges::find(kProtocols, text) != std::end(kProtocols);
}

// Takes "50510_TCP" from the front; false: there is no such text.
bool TakePortAndProtocol(std::string_view& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (!IsPort(text.substr(0, digits))) return false;
  text.remove_prefix(digits);
  for (const std::string_view protocol : {"_TCP", "_UDP", "_SCTP"}) {
    if (!text.starts_with(protocol)) continue;
    text.remove_prefix(protocol.size());
    return true;
  }
  return false;
}

}  // namespace

bool IsKubernetesVariable(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST")) return IsIpAddress(value);
  if (name.ends_with("_SERVICE_PORT") || name.find("_SERVICE_PORT_") != std::string_view::npos)
    return IsPort(value);
  if (name.ends_with("_PORT") && IsUrl(value)) return true;
  constexpr std::string_view kPort = "_PORT_";
  const size_t at = name.find(kPort);
  if (at == std::string_view::npos) return false;
  std::string_view rest = name.substr(at + kPort.size());
  if (!TakePortAndProtocol(rest)) return false;
  if (rest.empty()) return IsUrl(value);
  if (rest == "_PROTO") return IsProtocol(value);
  if (rest == "_PORT") return IsPort(value);
  return rest == "_ADDR" && IsIpAddress(value);
}

}  // namespace uopd::config
