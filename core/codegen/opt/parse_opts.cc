// SPDX-License-Identifier: MIT
#include "core/codegen/opt/parse_opts.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::codegen {
namespace {

std::string_view SkipSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// Takes a whole number and the spaces around it from the front of `text`.
template <class T>
bool TakeNumber(std::string_view& text, T& out) {
  text = SkipSpaces(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text = SkipSpaces(text.substr(static_cast<size_t>(end - text.data())));
  return true;
}

// "NAME(axis, amount"
absl::StatusOr<Opt> ParseOpt(std::string_view text) {
  Opt out;
  const size_t open = std::min(text.find('('), text.size());
  const auto kind = OptKindOf(text.substr(0, open));
  if (!kind) return Invalid(Cat("opt (", text.substr(0, open), ") is unknown"));
  out.kind = *kind;
  std::string_view rest = text.substr(std::min(open + 1, text.size()));
  bool is_right = TakeNumber(rest, out.axis) && (rest.starts_with(',') || rest.starts_with(';'));
  if (is_right) rest.remove_prefix(1);
  is_right = is_right && TakeNumber(rest, out.amount) && rest.empty();
  if (!is_right) return Invalid(Cat("opt (", text, ")) is not NAME(axis, amount)"));
  return out;
}

}  // namespace

absl::StatusOr<std::vector<Opt>> ParseOpts(std::string_view text) {
  std::vector<Opt> out;
  for (std::string_view rest = SkipSpaces(text); !rest.empty();) {
    if (!out.empty() && rest.front() == '+') rest = SkipSpaces(rest.substr(1));
    const size_t close = rest.find(')');
    if (close == std::string_view::npos)
      return Invalid(Cat("opts (", rest, ") do not end with NAME(axis, amount)"));
    UOPD_ASSIGN(out.emplace_back(), ParseOpt(rest.substr(0, close)));
    rest = SkipSpaces(rest.substr(close + 1));
  }
  return out;
}

}  // namespace uopd::codegen
