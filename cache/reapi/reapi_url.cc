// SPDX-License-Identifier: MIT
#include "cache/reapi/reapi_url.h"

#include <algorithm>
#include <array>

#include "core/base/status.h"

namespace uopd::cache {
namespace {

constexpr std::string_view kPlain = "reapi://", kTls = "reapis://";
// A name with one of these as a part could not be told from the rest of the name of a blob.
constexpr std::array<std::string_view, 7> kKeywords = {
    "blobs",      "uploads",      "actions",         "actionResults",
    "operations", "capabilities", "compressed-blobs"};

absl::Status CheckInstance(std::string_view rest) {
  if (rest.ends_with('/'))
    return Invalid("The instance in the URL of the cluster tier is not the name of one");
  while (!rest.empty()) {
    const std::string_view part = CutAt(rest, '/');
    if (part.empty() || std::ranges::find(kKeywords, part) != kKeywords.end() ||
        !std::ranges::all_of(part, [](char c) { return c > ' ' && c < 127; }))
      return Invalid("The instance in the URL of the cluster tier is not the name of one");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsReapiUrl(std::string_view url) { return url.starts_with(kPlain) || url.starts_with(kTls); }

absl::StatusOr<ReapiUrl> ParseReapiUrl(std::string_view text) {
  if (!IsReapiUrl(text))
    return Invalid("The URL of the cluster tier must begin with reapi:// or reapis://");
  ReapiUrl url;
  url.tls = text.starts_with(kTls);
  std::string_view rest = text.substr(url.tls ? kTls.size() : kPlain.size());
  std::string_view place = CutAt(rest, '/');
  UOPD_ASSIGN(url.user, CutUser(place));
  UOPD_ASSIGN(url.server, ParseHostPort(place, 0));
  UOPD_TRY(CheckInstance(rest));
  url.instance = rest;
  return url;
}

}  // namespace uopd::cache
