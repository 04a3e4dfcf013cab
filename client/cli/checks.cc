// SPDX-License-Identifier: MIT
#include "client/cli/checks.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/base/text.h"

namespace uopd::cli {
namespace {

// 1000000, and not 1e+06.
std::string TextOf(double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
  return whole ? Cat(static_cast<int64_t>(number)) : Cat(number);
}

// "[::1]:80", "host:80".
std::string CheckHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || at != end) port = -1;
  }
  if (colon == 0 || port < 1 || port > 65535)
    return Cat("`", text, "` is no HOST:PORT with a port from 1 to 65535");
  return "";
}

}  // namespace

CLI::Validator NumberIn(double min, double max, bool whole) {
  const std::string range = Cat(TextOf(min), " to ", TextOf(max));
  return {[=](std::string& text) -> std::string {
            double value = 0;
            const char* end = text.data() + text.size();
            const auto [at, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || at != end || !std::isfinite(value))
              return Cat("`", text, "` is no number");
            if (whole && value != std::floor(value)) return Cat("`", text, "` is no whole number");
            if (value < min || value > max) return Cat(text, " is not in the range ", range);
            return "";
          },
          Cat("in [", range, "]")};
}

CLI::Validator HexDigits(size_t digits) {
  return {[=](std::string& text) -> std::string {
            const bool hex =
                !text.empty() && text.size() <= digits &&
                std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
            return hex ? "" : Cat("`", text, "` is not 1 to ", digits, " hexadecimal digits");
          },
          ""};
}

CLI::Validator OneOf(std::vector<std::string> names) {
  std::string list;
  for (const std::string& name : names) Append(list, list.empty() ? "" : ",", name);
  return {[names, list](std::string& text) -> std::string {
            if (std::ranges::find(names, text) != names.end()) return "";
            return Cat("`", text, "` is none of {", list, "}");
          },
          Cat("{", list, "}")};
}

void AddHttpOption(CLI::App& command, std::string& http) {
  command.add_option("--http", http, "host:port of the daemon's HTTP server (UOPD_HTTP_ADDRESS)")
      ->envname("UOPD_HTTP_ADDRESS")
      ->capture_default_str()
      ->check(CLI::Validator([](std::string& text) { return CheckHostAndPort(text); }, ""));
}

CLI::Validator DaemonAddress() {
  return {[](std::string& text) -> std::string {
            if (text.starts_with("unix:") || text.starts_with("unix-abstract:"))
              return text.ends_with(':') ? Cat("`", text, "` has no path") : "";
            for (const char* scheme : {"dns:", "ipv4:", "ipv6:", "vsock:"})
              if (text.starts_with(scheme)) return "";
            return CheckHostAndPort(text);
          },
          ""};
}

}  // namespace uopd::cli
