// SPDX-License-Identifier: MIT
#include "client/s3/s3_url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::s3 {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kMaxKeyBytes = 1024;

// RFC 3986's unreserved characters, and the slashes between the parts of a key.
std::string Percent(std::string_view key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

bool IsBucket(std::string_view text) {
  return text.size() >= 3 && text.size() <= 63 && text.front() != '.' && text.back() != '.' &&
         std::ranges::all_of(text, [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.';
         });
}

}  // namespace

bool IsS3Url(std::string_view text) { return text.starts_with(kScheme); }

absl::StatusOr<ObjectName> ParseS3Url(std::string_view text) {
  if (!IsS3Url(text)) return Invalid("the name of an object begins with s3://");
  text.remove_prefix(kScheme.size());
  const size_t slash = text.find('/');
  ObjectName out{.bucket = std::string(text.substr(0, slash)), .key = {}};
  if (!IsBucket(out.bucket))
    return Invalid(Cat("\"", out.bucket, "\" is not the name of a bucket"));
  if (slash == std::string_view::npos || slash + 1 == text.size())
    return Invalid("the name of an object is s3://BUCKET/KEY, and the key is missing");
  out.key = text.substr(slash + 1);
  if (out.key.size() > kMaxKeyBytes) return Invalid("the key of an object has at most 1024 bytes");
  if (std::ranges::any_of(out.key, [](unsigned char c) { return absl::ascii_iscntrl(c); }))
    return Invalid("the key of an object has no control characters");
  for (const absl::string_view part : absl::StrSplit(out.key, '/')) {
    if (part == "." || part == "..")
      return Invalid("the key of an object has no part \".\" or \"..\"");
  }
  return out;
}

std::string TextOf(const ObjectName& name) { return Cat(kScheme, name.bucket, "/", name.key); }

std::string HttpUrlOf(const ObjectName& name, std::string_view endpoint, std::string_view region) {
  const std::string key = Percent(name.key);
  while (endpoint.ends_with('/')) endpoint.remove_suffix(1);
  if (!endpoint.empty()) return Cat(endpoint, "/", name.bucket, "/", key);
  // The certificate of the service is for names with one part before its own.
  if (name.bucket.find('.') != std::string::npos)
    return Cat("https://s3.", region, ".amazonaws.com/", name.bucket, "/", key);
  return Cat("https://", name.bucket, ".s3.", region, ".amazonaws.com/", key);
}

absl::Status CheckEndpoint(std::string_view endpoint) {
  if (endpoint.empty()) return absl::OkStatus();
  std::string_view rest = endpoint;
  const auto cut = [&](std::string_view scheme) {
    const bool there = rest.starts_with(scheme);
    if (there) rest.remove_prefix(scheme.size());
    return there;
  };
  const bool has_scheme = cut("http://") || cut("https://");
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const bool plain = std::ranges::all_of(rest, [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("-._:[]").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!has_scheme || rest.empty() || !plain)
    return Invalid("the endpoint of an S3 server is http://HOST[:PORT] or https://HOST[:PORT]");
  return absl::OkStatus();
}

}  // namespace uopd::s3
