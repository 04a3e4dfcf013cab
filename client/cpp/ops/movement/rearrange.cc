// SPDX-License-Identifier: MIT
// Rearrange: one side of the formula is read into groups of names, one group for each axis.
#include <algorithm>
#include <cctype>
#include <map>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

// The names that make an axis. A part of the ellipsis is named ".0", ".1" and so on.
using Group = std::vector<std::string>;
constexpr std::string_view kDots = "...";
constexpr std::string_view kBareDots = "....";  // not in parentheses

bool IsNameChar(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || byte >= 0x80;  // letters of UTF-8 too
}

absl::StatusOr<std::vector<Group>> GroupsOf(std::string_view side) {
  std::vector<Group> groups;
  bool open = false;
  auto add = [&](std::string name) {
    if (!open) groups.emplace_back();
    groups.back().push_back(std::move(name));
  };
  for (size_t i = 0; i < side.size();) {
    const char c = side[i];
    size_t length = 1;
    if (c == '(' && !open) {
      open = true;
      groups.emplace_back();
    } else if (c == ')' && open) {
      open = false;
    } else if (side.substr(i).starts_with(kDots)) {
      add(std::string(open ? kDots : kBareDots));
      length = kDots.size();
      const bool joined = (i > 0 && IsNameChar(side[i - 1])) ||
                          (i + length < side.size() && IsNameChar(side[i + length]));
      if (joined) return absl::InvalidArgumentError("... is joined to a name");
    } else if (IsNameChar(c)) {
      while (i + length < side.size() && IsNameChar(side[i + length])) ++length;
      const std::string name(side.substr(i, length));
      const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if ((number && name != "1") || c == '_' || name.ends_with('_'))
        return absl::InvalidArgumentError(Cat("\"", name, "\" is no name of an axis"));
      if (!number) add(name);
      if (number && !open) groups.emplace_back();
    } else if (c != ' ') {
      return absl::InvalidArgumentError(Cat("'", c, "' at the wrong place"));
    }
    i += length;
  }
  if (open) return absl::InvalidArgumentError("a parenthesis is not closed");
  return groups;
}

// The ellipsis as `count` names: axes of their own, or in parentheses parts of one axis.
void Spell(std::vector<Group>& groups, size_t count) {
  Group dots;
  for (size_t i = 0; i < count; ++i) dots.push_back(Cat(".", i));
  std::vector<Group> out;
  for (Group& g : groups) {
    if (g == Group{std::string(kBareDots)}) {
      for (const std::string& name : dots) out.push_back({name});
      continue;
    }
    if (const auto at = std::find(g.begin(), g.end(), kDots); at != g.end())
      g.insert(g.erase(at), dots.begin(), dots.end());
    out.push_back(std::move(g));
  }
  groups = std::move(out);
}

std::vector<std::string> Joined(const std::vector<Group>& groups) {
  std::vector<std::string> names;
  for (const Group& g : groups) names.insert(names.end(), g.begin(), g.end());
  return names;
}

struct RearrangePlan {
  std::vector<Group> from, to;
  std::map<std::string, int64_t> sizes;
};

absl::StatusOr<RearrangePlan> PlanOf(const Tensor& x, std::string_view formula,
                                     std::span<const std::pair<std::string, int64_t>> sizes) {
  const size_t arrow = formula.find("->");
  if (arrow == std::string_view::npos) return absl::InvalidArgumentError("there is no ->");
  RearrangePlan p;
  UOPD_ASSIGN(p.from, GroupsOf(formula.substr(0, arrow)));
  UOPD_ASSIGN(p.to, GroupsOf(formula.substr(arrow + 2)));
  std::vector<std::string> left = Joined(p.from), right = Joined(p.to);
  if (std::find(left.begin(), left.end(), kDots) != left.end())
    return absl::InvalidArgumentError("... in parentheses left of ->");
  std::replace(right.begin(), right.end(), std::string(kDots), std::string(kBareDots));
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  if (left != right) return absl::InvalidArgumentError("both sides must have the same names");
  const auto twice = std::adjacent_find(left.begin(), left.end());
  if (twice != left.end())
    return absl::InvalidArgumentError(
        Cat("\"", *twice == kBareDots ? kDots : *twice, "\" occurs twice on one side"));
  const bool dots = std::binary_search(left.begin(), left.end(), kBareDots);
  const size_t rank = x.dims().size(), named = p.from.size() - (dots ? 1 : 0);
  if (dots ? rank < named : rank != named)
    return absl::InvalidArgumentError(Cat("it names ", named, " axes"));
  if (dots) {
    Spell(p.from, rank - named);
    Spell(p.to, rank - named);
  }
  for (const auto& [name, size] : sizes) {
    if (!std::binary_search(left.begin(), left.end(), name))
      return absl::InvalidArgumentError(Cat("there is no axis \"", name, "\""));
    if (size < 0) return absl::InvalidArgumentError(Cat("the size of \"", name, "\" is ", size));
    p.sizes[name] = size;
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t n = x.dims()[i];
    absl::Status wrong =
        absl::InvalidArgumentError(Cat("the sizes of axis ", i, " do not make ", n));
    ir::Int128 known = 1;
    std::string hole;
    for (const std::string& name : p.from[i]) {
      if (auto it = p.sizes.find(name); it != p.sizes.end()) {
        known *= it->second;
      } else if (hole.empty()) {
        hole = name;
      } else {
        return absl::InvalidArgumentError(
            Cat("the sizes of \"", hole, "\" and \"", name, "\" are both unknown"));
      }
      if (known > ir::kMaxElements) return wrong;
    }
    if (hole.empty() ? known != n : known < 1 || n % known != 0) return wrong;
    if (!hole.empty()) p.sizes[hole] = n / static_cast<int64_t>(known);
  }
  return p;
}

}  // namespace

Tensor Rearrange(const Tensor& x, std::string_view formula,
                 std::span<const std::pair<std::string, int64_t>> sizes, Site site) {
  if (auto error = FirstError("Rearrange", {&x}, site)) return *error;
  const auto p = PlanOf(x, formula, sizes);
  if (!p.ok()) {
    return Wrong(x, "Rearrange", site,
                 Cat("\"", formula, "\" for shape ", Text(x.dims()), ": ", StatusText(p.status())));
  }
  const std::vector<std::string> names = Joined(p->from);
  ir::UOpContext& ctx = Ctx(x);
  std::map<std::string, ir::UOp> named;
  for (const auto& [name, size] : p->sizes) named[name] = ctx.Idx(size);
  for (size_t i = 0; i < p->from.size(); ++i) {
    const ir::UOp size = ShapeOf(x)[i];
    if (size.Is(ir::Op::CONST)) continue;
    // If this axis is symbolic, the caller gives all of the sizes that it is split into but one,
    // and gives numbers.
    int64_t known = 1;
    std::string left;
    for (const std::string& name : p->from[i]) {
      const bool given = std::ranges::any_of(sizes, [&](const auto& s) { return s.first == name; });
      if (given)
        known *= p->sizes.at(name);
      else
        left = name;
    }
    const ir::UOp rest =
        known > 0 && !left.empty() ? ir::MaybeDivided(ctx, size, known) : ir::UOp();
    if (!rest) {
      return Wrong(x, "Rearrange", site,
                   Cat("\"", formula, "\": ", known, " do not divide ", ir::SizeText(size)));
    }
    named[left] = ir::CanonicalSize(ctx, rest);
  }
  Dims order;
  ir::SymbolicDims divided, joined;
  for (const std::string& name : names) divided.push_back(named.at(name));
  for (const Group& g : p->to) {
    ir::Int128 n = 1;
    ir::UOp whole = ctx.Idx(1);
    for (const std::string& name : g) {
      order.push_back(std::find(names.begin(), names.end(), name) - names.begin());
      n *= p->sizes.at(name);
      // Beside an axis without elements, sizes may be anything.
      if (n > ir::kMaxElements)
        return Wrong(x, "Rearrange", site, Cat("\"", formula, "\" makes too long an axis"));
      whole = ProductOf(ctx, whole, named.at(name));
    }
    joined.push_back(whole);
  }
  const Tensor parts = ReshapeTo(x, divided, "Rearrange", site).Permute(order, site);
  return parts.status().ok() ? ReshapeTo(parts, joined, "Rearrange", site) : parts;
}

}  // namespace uopd::client::fn
