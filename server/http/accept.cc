// SPDX-License-Identifier: MIT
#include "server/http/accept.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace uopd::http {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// Takes the part of `*rest` before the separator, and the separator, away from it.
std::string_view Next(std::string_view* rest, std::string_view separator) {
  const size_t end = std::min(rest->find(separator), rest->size());
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(std::min(end + separator.size(), rest->size()));
  return part;
}

// 0 for a text that is no weight: the entry then counts as not acceptable.
double Weight(std::string_view text) {
  double q = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), q, std::chars_format::fixed);
  const bool valid = error == std::errc() && end == text.data() + text.size() && q >= 0 && q <= 1;
  return valid ? q : 0;
}

struct Range {
  std::string_view type;
  std::string_view version;  // empty: any
  double q = 1;
};

Range Parse(std::string_view entry) {
  Range out;
  out.type = Trim(Next(&entry, ";"));
  while (!entry.empty()) {
    std::string_view value = Trim(Next(&entry, ";"));
    const std::string_view name = Trim(Next(&value, "="));
    value = Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (EqualsIgnoringCase(name, "q")) out.q = Weight(value);
    if (EqualsIgnoringCase(name, "version")) out.version = value;
  }
  return out;
}

}  // namespace

bool PrefersOpenMetrics(std::string_view head) {
  double open_metrics = 0, text = 0, any = 0;
  bool names_text = false;
  Next(&head, "\r\n");  // the request line
  while (!head.empty()) {
    std::string_view value = Next(&head, "\r\n");
    if (!EqualsIgnoringCase(Next(&value, ":"), "accept")) continue;
    while (!value.empty()) {
      const Range range = Parse(Next(&value, ","));
      if (EqualsIgnoringCase(range.type, "application/openmetrics-text")) {
        const bool known =
            range.version.empty() || range.version == "1.0.0" || range.version == "0.0.1";
        if (known) open_metrics = std::max(open_metrics, range.q);
      } else if (EqualsIgnoringCase(range.type, "text/plain") ||
                 EqualsIgnoringCase(range.type, "text/*")) {
        names_text = true;
        text = std::max(text, range.q);
      } else if (range.type == "*/*") {
        any = std::max(any, range.q);
      }
    }
  }
  return open_metrics > 0 && open_metrics >= (names_text ? text : any);
}

}  // namespace uopd::http
