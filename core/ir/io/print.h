// SPDX-License-Identifier: MIT
// The textual form of graphs, one node a line, sources first, ids dense; parse(print(x)) == x.
//
//   %0 = CONST<index> {16}
//   %1 = STACK<index> %0
//   %2 = PARAM<f32> %1 {0, GLOBAL, "CPU"}
//   %3 = CONST<f32> {2}
//   %4 = MUL<f32> %2, %3
//
// A line is `%id = OP<dtype> sources {arg} #tag`; void dtypes, empty args and zero tags are left
// out. `;` starts a comment. The arg is a list: integers, the names of ops, axis types and address
// spaces where ArgSchema says so, a text last.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

std::string Print(const UOpContext& ctx, UOp root);
// One node for messages, numbered as in `order`, which lists it and its sources.
std::string PrintLine(UOp u, std::span<const UOp> order);
// The parts of a line without numbers: "ADD<index>", and "{0, GLOBAL} #3" (arg and tag) or nothing.
std::string PrintHead(UOp u);
std::string PrintArg(UOp u);
// Appends the value of a CONST: `1`, `0.5`, `true`.
void AppendConst(std::string& out, UOp u);

struct ParseLimits {
  size_t max_nodes = 10'000'000;
};

// Parses into ctx and returns the last line's node. Errors are INVALID_ARGUMENT with line number;
// too many nodes are RESOURCE_EXHAUSTED. Sources must be defined on an earlier line. The result is
// well formed but not verified.
absl::StatusOr<UOp> Parse(UOpContext& ctx, std::string_view text, const ParseLimits& limits = {});

// As Parse; `lines` becomes the node of every id of the text, so that errors can name nodes as the
// text does. Lines that are equal are one node.
absl::StatusOr<UOp> Parse(UOpContext& ctx, std::string_view text, std::vector<UOp>& lines,
                          const ParseLimits& limits = {});

// Renumbers the node that a status names: `status` has the node's position in `order`, the result
// has its number and line in `lines`. A status that names no node stays as it is.
absl::Status NumberedAs(const absl::Status& status, std::span<const UOp> order,
                        std::span<const UOp> lines);

}  // namespace uopd::ir
