// SPDX-License-Identifier: MIT
// How opts are written: for people, and in caches.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/base/text.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/opt_row.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kStoredWarps =
    10;  // times the warps of a PIPELINE, plus its parts, is its stored amount
constexpr int kMostNumbers = 3;

std::string_view SkipSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// Takes a whole number and the spaces around it from the front of `text`.
bool TakeNumber(std::string_view& text, int64_t& out) {
  text = SkipSpaces(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text = SkipSpaces(text.substr(static_cast<size_t>(end - text.data())));
  return true;
}

// The numbers between the parentheses. Nullopt: something else stands there, or too many.
std::optional<std::vector<int64_t>> Numbers(std::string_view text) {
  std::vector<int64_t> out;
  if (SkipSpaces(text).empty()) return out;
  while (out.size() < kMostNumbers && TakeNumber(text, out.emplace_back())) {
    if (text.empty()) return out;
    if (!text.starts_with(',') && !text.starts_with(';')) break;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

// "NAME(axis, amount"
absl::StatusOr<Opt> ParseOpt(std::string_view text) {
  const size_t open = std::min(text.find('('), text.size());
  const auto row = std::ranges::find(OptRows(), text.substr(0, open), &OptRow::name);
  if (row == OptRows().end()) return Invalid(Cat("opt (", text.substr(0, open), ") is unknown"));
  Opt out{(*row)->kind};
  const auto numbers =
      open < text.size() ? Numbers(text.substr(open + 1)) : std::optional<std::vector<int64_t>>();
  size_t used = 0;
  bool is_right = numbers.has_value();
  const auto take = [&](const Operand& operand, auto& to) {
    if (!is_right || operand.names == Operand::Names::kNothing) return;
    if (used == numbers->size()) {
      is_right = operand.is_optional;
      return;
    }
    const int64_t number = (*numbers)[used++];
    to = static_cast<std::remove_reference_t<decltype(to)>>(number);
    is_right = to == number;
  };
  take((*row)->axis, out.axis);
  take((*row)->amount, out.amount);
  take((*row)->warps, out.warps);
  if (!is_right || used != numbers->size())
    return Invalid(Cat("opt (", text, ")) is not ", Usage(**row)));
  return out;
}

}  // namespace

std::string Text(const Opt& opt) {
  const OptRow& row = RowOf(opt.kind);
  std::string out = Cat(row.name, "(");
  std::string_view between;
  const auto add = [&](const Operand& operand, int64_t number) {
    if (operand.names == Operand::Names::kNothing || (operand.is_optional && number == 0)) return;
    Append(out, between, number);
    between = ", ";
  };
  add(row.axis, opt.axis);
  add(row.amount, opt.amount);
  add(row.warps, opt.warps);
  return out + ")";
}

std::string Text(const std::vector<Opt>& opts) {
  std::string out = "[";
  for (const Opt& opt : opts) Append(out, out.size() > 1 ? ", " : "", Text(opt));
  return out + "]";
}

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

StoredOpt Stored(const Opt& opt) {
  return {static_cast<uint64_t>(opt.kind), opt.axis, opt.amount + kStoredWarps * opt.warps};
}

std::string StoredText(const std::vector<Opt>& opts) {
  std::string out = "[";
  for (const Opt& opt : opts) {
    const StoredOpt stored = Stored(opt);
    Append(out, out.size() > 1 ? ", " : "", RowOf(opt.kind).name, "(", stored.axis, ", ",
           stored.amount, ")");
  }
  return out + "]";
}

absl::StatusOr<Opt> FromStored(const StoredOpt& stored) {
  if (stored.kind >= kOptKinds)
    return absl::FailedPreconditionError(Cat("opt of kind ", stored.kind,
                                             " is of a later version, this one has kinds below ",
                                             kOptKinds));
  const auto kind = static_cast<OptKind>(stored.kind);
  Opt out{kind, static_cast<int>(stored.axis), stored.amount};
  if (RowOf(kind).warps.names != Operand::Names::kNothing) {
    out.warps = stored.amount / kStoredWarps;
    out.amount = stored.amount % kStoredWarps;
  }
  if (stored.axis < 0 || out.axis != stored.axis || out.amount < 0 || out.warps < 0)
    return absl::DataLossError(
        Cat("opt ", RowOf(kind).name, " has the numbers ", stored.axis, " and ", stored.amount));
  return out;
}

bool TakeStored(const StoredOpt& stored, std::vector<Opt>& out, absl::Status& later) {
  const auto opt = FromStored(stored);
  if (opt.ok()) out.push_back(*opt);
  if (absl::IsFailedPrecondition(opt.status())) later.Update(opt.status());
  return !absl::IsDataLoss(opt.status());
}

}  // namespace uopd::codegen
