// SPDX-License-Identifier: MIT
#include "tests/cluster/table.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace uopd::cluster {
namespace {

std::string Number(double value) {
  return value == static_cast<double>(static_cast<int64_t>(value)) ? absl::StrFormat("%.0f", value)
                                                                   : absl::StrFormat("%.3g", value);
}

}  // namespace

void Table::Add(const std::string& what, const std::string& figure, const std::string& target,
                bool holds) {
  lines_.push_back({what, figure, target, holds});
  std::fprintf(stderr, "  %s: %s%s\n", what.c_str(), figure.c_str(),
               holds ? "" : Cat("  MISSED, wanted ", target).c_str());
}

void Table::AddEqual(const std::string& what, double figure, double target) {
  Add(what, Number(figure), Number(target), figure == target);
}

void Table::AddAtMost(const std::string& what, double figure, double most, const char* unit) {
  Add(what, Cat(Number(figure), unit), Cat("<= ", Number(most), unit), figure <= most);
}

bool Table::holds() const { return std::ranges::all_of(lines_, &Line::holds); }

std::string Table::Text() const {
  size_t what = 0, figure = 0;
  for (const Line& line : lines_) {
    what = std::max(what, line.what.size());
    figure = std::max(figure, line.figure.size());
  }
  std::string out;
  for (const Line& line : lines_) {
    absl::StrAppendFormat(&out, "%-*s  %*s  %-12s %s\n", static_cast<int>(what), line.what,
                          static_cast<int>(figure), line.figure, line.target,
                          line.target.empty() ? "" : (line.holds ? "holds" : "MISSED"));
  }
  return out;
}

}  // namespace uopd::cluster
