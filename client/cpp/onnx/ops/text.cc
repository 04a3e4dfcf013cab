// SPDX-License-Identifier: MIT
// Ops of strings, which the client has: there are no strings on the daemon. Strings are UTF-8, or
// whatever bytes they are; letters are changed and compared without regard to case only if they are
// ASCII.
#include "client/cpp/onnx/ops/text.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "client/cpp/onnx/run/broadcast.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

using Strings = std::vector<std::string>;

constexpr size_t kMostStrings = 1 << 20;

// Nullptr: it has no strings.
const Strings* StringsOf(Call& c, size_t i) { return c.In(i).strings.get(); }

std::string Changed(std::string s, int (*f)(int)) {
  for (char& ch : s) ch = static_cast<char>(f(static_cast<unsigned char>(ch)));
  return s;
}

bool IsAscii(std::string_view s) {
  return std::ranges::all_of(s, [](char ch) { return static_cast<unsigned char>(ch) < 128; });
}

absl::Status RunStringNormalizer(Call& c) {
  const std::string_view action = c.String("case_change_action", "NONE");
  const bool sensitive = c.Int("is_case_sensitive", 0) != 0;
  c.String("locale", "");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return c.Wrong("the attribute case_change_action is not known");
  Strings stops;
  if (const OnnxAttribute* a = c.Find("stopwords"); a != nullptr) {
    if (a->Strings() == nullptr) return c.Wrong("the attribute stopwords is no list of strings");
    for (const std::string_view s : *a->Strings()) stops.emplace_back(s);
  }
  const Dims& dims = c.Shape(0);
  if (StringsOf(c, 0) == nullptr || dims.empty() || dims.size() > 2 ||
      (dims.size() == 2 && dims[0] != 1))
    return c.Wrong("its input is no list of strings");
  const auto folded = [&](const std::string& s) {
    return sensitive ? s : Changed(s, std::tolower);
  };
  for (std::string& s : stops) s = folded(s);
  const std::unordered_set<std::string> stopped(stops.begin(), stops.end());
  Strings out;
  for (const std::string& s : *StringsOf(c, 0)) {
    if (!IsAscii(s) && (action != "NONE" || (!sensitive && !stops.empty())))
      return c.Refuse("letters beyond ASCII are not supported");
    if (stopped.contains(folded(s))) continue;
    out.push_back(action == "NONE"    ? s
                  : action == "LOWER" ? Changed(s, std::tolower)
                                      : Changed(s, std::toupper));
  }
  if (out.empty()) out.emplace_back();  // as the op's definition has it
  Dims shape = dims;
  shape.back() = static_cast<int64_t>(out.size());
  return c.Out(StringValue(shape, std::move(out)));
}

// Elements of both inputs, which broadcast.
template <class F>
absl::StatusOr<Dims> EachPair(Call& c, const F& f) {
  const Strings *a = StringsOf(c, 0), *b = StringsOf(c, 1);
  if (a == nullptr || b == nullptr) return c.Wrong("only one of its inputs has strings");
  const std::optional<Dims> dims = BroadcastDims(c.Shape(0), c.Shape(1));
  if (!dims) return c.Wrong("the shapes do not broadcast, or have too many elements");
  const std::vector<int64_t> at_a = SpreadPlaces(c.Shape(0), *dims),
                             at_b = SpreadPlaces(c.Shape(1), *dims);
  for (size_t i = 0; i < at_a.size(); ++i)
    f((*a)[static_cast<size_t>(at_a[i])], (*b)[static_cast<size_t>(at_b[i])]);
  return *dims;
}

absl::Status RunStringConcat(Call& c) {
  // Strings may double in each of many nodes, so they are counted before they are made.
  uint64_t bytes = 0;
  UOPD_TRY(EachPair(c, [&](const std::string& a, const std::string& b) {
             bytes += a.size() + b.size();
           }).status());
  UOPD_TRY(c.walk().ChargeBytes(bytes));
  Strings out;
  UOPD_ASSIGN(const Dims dims, EachPair(c, [&](const std::string& a, const std::string& b) {
                out.push_back(a + b);
              }));
  return c.Out(StringValue(dims, std::move(out)));
}

// Pieces of one string between delimiters; without a delimiter between blanks, of which several
// count as one. Not more than kMostStrings + 1 of them.
Strings PiecesOf(std::string_view s, std::string_view delimiter, int64_t most) {
  Strings out;
  const auto is_blank = [](char ch) { return std::isspace(static_cast<unsigned char>(ch)) != 0; };
  const auto skip = [&] {
    while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  };
  if (delimiter.empty()) skip();
  while ((delimiter.empty() ? !s.empty() : true) && out.size() <= kMostStrings) {
    size_t end = s.size(), length = delimiter.size();
    if (most < 0 || static_cast<int64_t>(out.size()) < most) {
      end = delimiter.empty() ? static_cast<size_t>(std::ranges::find_if(s, is_blank) - s.begin())
                              : std::min(s.find(delimiter), s.size());
    } else if (delimiter.empty()) {
      while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
      end = s.size();
    }
    out.emplace_back(s.substr(0, end));
    if (end == s.size()) break;
    s.remove_prefix(end + length);
    if (delimiter.empty()) skip();
  }
  return out;
}

absl::Status RunStringSplit(Call& c) {
  if (StringsOf(c, 0) == nullptr) return c.Wrong("its input has no strings");
  const std::string_view delimiter = c.String("delimiter", "");
  const bool bounded = c.Find("maxsplit") != nullptr;
  const int64_t most = bounded ? std::max<int64_t>(c.Int("maxsplit", 0), 0) : -1;
  std::vector<Strings> rows;
  std::vector<int64_t> counts;
  size_t width = 0, pieces = 0;
  for (const std::string& s : *StringsOf(c, 0)) {
    rows.push_back(PiecesOf(s, delimiter, most));
    pieces += rows.back().size();
    if (pieces > kMostStrings) return c.Refuse("it gives too many strings");
    counts.push_back(static_cast<int64_t>(rows.back().size()));
    width = std::max(width, rows.back().size());
  }
  if (width * rows.size() > kMostStrings) return c.Refuse("it gives too many strings");
  Strings all;
  for (Strings& row : rows) {
    row.resize(width);
    std::ranges::move(row, std::back_inserter(all));
  }
  Dims dims = c.Shape(0);
  UOPD_TRY(c.Out(KnownInts(ElementType("INT64"), dims, counts), 1));
  dims.push_back(static_cast<int64_t>(width));
  return c.Out(StringValue(dims, std::move(all)));
}

}  // namespace

absl::Status RunEqualStrings(Call& c) {
  std::vector<int64_t> out;
  UOPD_ASSIGN(const Dims dims, EachPair(c, [&](const std::string& a, const std::string& b) {
                out.push_back(a == b ? 1 : 0);
              }));
  return c.Out(KnownInts(ElementType("BOOL"), dims, out));
}

OpRows TextOps() {
  return {
      {"StringNormalizer", 10, 1, 1, RunStringNormalizer, kStrings},
      {"StringConcat", 20, 2, 2, RunStringConcat, kStrings},
      {"StringSplit", 20, 1, 1, RunStringSplit, kStrings},
  };
}

}  // namespace uopd::client::onnx
