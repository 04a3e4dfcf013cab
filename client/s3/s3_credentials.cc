// SPDX-License-Identifier: MIT
#include "client/s3/s3_credentials.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "core/base/secret_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::s3 {
namespace {

// A type of its own in Debian's Abseil.
std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

absl::StatusOr<Credentials> ParseCredentials(std::string_view text, std::string_view profile) {
  Credentials out;
  bool here = false, found = false;
  for (const absl::string_view raw :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      here = line.back() == ']' &&
             Std(absl::StripAsciiWhitespace(line.substr(1, line.size() - 2))) == profile;
      found = found || here;
      continue;
    }
    const size_t equals = line.find('=');
    if (!here || equals == absl::string_view::npos) continue;
    const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, equals));
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(equals + 1));
    if (name == "aws_access_key_id") out.id = Std(value);
    if (name == "aws_secret_access_key") out.secret = Std(value);
    if (name == "aws_session_token") out.token = Std(value);
  }
  if (!found) return Invalid(Cat("there is no profile [", profile, "]"));
  if (out.id.empty() || out.secret.empty())
    return Invalid(
        Cat("the profile [", profile, "] has no aws_access_key_id or no aws_secret_access_key"));
  if (!IsPrintable(out.id) || !IsPrintable(out.secret) || !IsPrintable(out.token))
    return Invalid(Cat("the profile [", profile, "] has a value that is not printable ASCII"));
  return out;
}

absl::StatusOr<Credentials> ReadCredentials(const std::string& path, std::string_view profile) {
  UOPD_ASSIGN(const std::string text, ReadSecretFile(path));
  absl::StatusOr<Credentials> out = ParseCredentials(text, profile);
  if (!out.ok()) return WithFrame(out.status(), Cat("reading ", path));
  return out;
}

}  // namespace uopd::s3
