// SPDX-License-Identifier: MIT
#include "core/ir/io/linear_text.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/verify/admit.h"

namespace uopd::ir {
namespace {

constexpr std::string_view kKernel = "kernel ", kVariables = "variables";

// The first line of `text`, which is removed from it.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string PrintLinear(const UOpContext& ctx, const LinearText& kernel) {
  std::string out = Cat(kKernel, kernel.name, "\n");
  if (!kernel.variables.empty()) {
    out += kVariables;
    for (const std::string& v : kernel.variables) Append(out, " ", v);
    out += '\n';
  }
  return out + Print(ctx, kernel.linear);
}

absl::StatusOr<LinearText> ParseLinear(UOpContext& ctx, std::string_view text) {
  LinearText out;
  std::string_view line = TakeLine(text);
  if (!line.starts_with(kKernel) || !IsName(line.substr(kKernel.size())))
    return absl::InvalidArgumentError("line 1 is not `kernel` and a name");
  out.name = line.substr(kKernel.size());
  if (text.starts_with(kVariables)) {
    line = TakeLine(text).substr(kVariables.size());
    while (!line.empty()) {
      line.remove_prefix(1);
      const std::string_view name = line.substr(0, line.find(' '));
      if (!IsName(name))
        return absl::InvalidArgumentError(Cat("line 2 lists `", name, "`, which is no name"));
      out.variables.emplace_back(name);
      line.remove_prefix(name.size());
    }
  }
  UOPD_ASSIGN(out.linear, Parse(ctx, text));
  if (!out.linear.Is(Op::LINEAR))
    return absl::InvalidArgumentError(
        Cat("the last node is ", Name(out.linear.op()), ", not LINEAR"));
  return out;
}

}  // namespace uopd::ir
