// SPDX-License-Identifier: MIT
// Parts of the URL of a shared tier. Messages never repeat the text, which may hold a password by
// mistake.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace uopd::cache {

struct HostPort {
  std::string host;  // IPv6 addresses without brackets
  uint16_t port = 0;
  bool operator==(const HostPort&) const = default;
};

// What stands before the first `mark`; `rest` becomes what stands behind it. The whole text if
// there is no mark.
std::string_view CutAt(std::string_view& rest, char mark);
// Whether the whole text is a number from `least` to `most`, which becomes `number`.
bool ReadUrlNumber(std::string_view text, int least, int most, int& number);
// "HOST[:PORT]", with brackets around an IPv6 address. `port`: of a text without one; 0: there must
// be one.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text, uint16_t port);
// The user of "[USER@]REST", which becomes `rest`. INVALID_ARGUMENT: with a password.
absl::StatusOr<std::string> CutUser(std::string_view& rest);
// "host:port", with brackets around an IPv6 address.
std::string HostPortText(std::string_view host, uint16_t port);

}  // namespace uopd::cache
