// SPDX-License-Identifier: MIT
// Sizes and positions that are made of variables, as a client writes them down: while it builds a
// graph it knows the value of every variable, which a BIND with the tag kBound holds. Tags never
// travel, so a daemon sees variables without values, and proves what it accepts for all of them.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/context.h"

namespace uopd::ir {

// The tag of a BIND whose value counts where a shape cannot be proven for all values of its
// variables.
inline constexpr int64_t kBound = 1;

// What the size is with the values that its variables are bound to; nullopt if one of them is bound
// to none, or if the numbers are over 64 bits. REQUIRES: dtype index.
std::optional<int64_t> BoundValue(UOp size);
// What the size is with the values that `values` gives for its DEFINE_VARs; nullopt as above.
using VariableValues = std::function<std::optional<int64_t>(UOp variable)>;
std::optional<int64_t> BoundValue(UOp size, const VariableValues& values);

// The size for people, with the names of its variables: "2*n + start".
std::string SizeText(UOp size);
// The variables of the size that have values, each one once, sorted by name.
std::vector<std::pair<std::string, int64_t>> BoundVariables(UOp size);
// The same for people: "n = 3, start = 5".
std::string BoundText(UOp size);

// The size as a sum of products in one order, which depends on names alone: equal sizes are the
// same node, and other values of the variables give the same form. What has too many terms stays as
// it is. REQUIRES: dtype index.
UOp CanonicalSize(UOpContext& ctx, UOp size);

// start + size <= whole, and no part of it is negative, for every value of the variables.
bool BoxFits(UOpContext& ctx, UOp start, UOp size, UOp whole);
// The same for the values that the variables are bound to.
bool BoxFitsNow(UOp start, UOp size, UOp whole);

}  // namespace uopd::ir
