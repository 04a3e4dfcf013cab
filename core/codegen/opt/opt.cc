// SPDX-License-Identifier: MIT
// Texts of what codegen.h defines.
#include "core/base/text.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

constexpr std::string_view kOptNames[] = {"UPCAST", "UNROLL", "THREAD", "VECTOR", "PACK"};
static_assert(std::size(kOptNames) == kOptKinds);

std::string Text(const Opt& opt) {
  return Cat(kOptNames[static_cast<int>(opt.kind)], "(", opt.axis, ", ", opt.amount, ")");
}

}  // namespace uopd::codegen
