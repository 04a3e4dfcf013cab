// SPDX-License-Identifier: MIT
#include "server/engine/session/tenants.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "core/base/input_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr size_t kMaxName = 64;
constexpr size_t kMaxFile = 64 << 20;
// Labels of metrics: calls without a valid token, and tenants beyond those that have series of
// their own.
constexpr std::array<std::string_view, 2> kTaken = {"-", "other"};

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// The words of a line, without the white space around them.
std::vector<std::string_view> Words(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> out;
  for (;;) {
    const size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return out;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kSpace), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace

absl::StatusOr<Tenants> Tenants::Parse(std::string_view text) {
  Tenants out;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = Words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty() || words[0].front() == '#') continue;
    auto bad = [&](std::string_view why) {
      return absl::InvalidArgumentError(Cat("line ", number, ": ", why));
    };
    if (words.size() != 2) return bad("is not `NAME SHA256-OF-THE-TOKEN`");
    const std::string_view name = words[0], hex = words[1];
    if (name.size() > kMaxName || !std::all_of(name.begin(), name.end(), IsNameChar)) {
      return bad("a name has up to 64 letters, digits, `-`, `_` and `.`");
    }
    if (std::ranges::find(kTaken, name) != kTaken.end())
      return bad(Cat("the name `", name, "` stands for other callers in metrics"));
    const bool is_hex = hex.size() == 64 && std::all_of(hex.begin(), hex.end(), [](char c) {
                          return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                        });
    Digest token;
    if (!is_hex || !token.FromBytes(absl::HexStringToBytes({hex.data(), hex.size()}))) {
      return bad("a SHA-256 has 64 hexadecimal digits");
    }
    out.names_.emplace(name);
    if (!out.by_token_.try_emplace(token, name).second) return bad("this token was given before");
  }
  if (!out.required()) return absl::InvalidArgumentError("it has no token");
  return out;
}

absl::StatusOr<Tenants> Tenants::Read(const std::string& path) {
  UOPD_ASSIGN(const std::string text, ReadInputFile(path, kMaxFile));
  auto out = Parse(text);
  return out.ok() ? std::move(out) : WithFrame(out.status(), Cat("reading ", path));
}

absl::Status Tenants::SetOperators(std::string_view names) {
  absl::flat_hash_set<std::string> operators;
  for (const absl::string_view name :
       absl::StrSplit(absl::string_view(names.data(), names.size()), ',', absl::SkipWhitespace())) {
    std::string tenant(absl::StripAsciiWhitespace(name));
    if (!names_.contains(tenant))
      return absl::InvalidArgumentError(Cat(tenant, " is a tenant without a token"));
    operators.insert(std::move(tenant));
  }
  operators_ = std::move(operators);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Tenants::Authenticate(std::string_view authorization) const {
  if (!required()) return "";
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) {
    return absl::UnauthenticatedError("this daemon wants a token, and the call has none");
  }
  const auto it = by_token_.find(HashBytes(authorization.substr(kScheme.size())));
  if (it == by_token_.end()) return absl::UnauthenticatedError("the token is of no tenant");
  return it->second;
}

}  // namespace uopd::engine
