// SPDX-License-Identifier: MIT
// Texts of what codegen.h defines.
#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

constexpr std::string_view kOptNames[] = {"UPCAST", "UNROLL",   "THREAD", "VECTOR",  "PACK",
                                          "STREAM", "PREFETCH", "TC",     "BLOCK",   "LOCAL",
                                          "GROUP",  "GROUPTOP", "SWAP",   "PADTO",   "NOLOCALS",
                                          "ONLINE", "PIPELINE", "RASTER", "PERSIST", "MERGE"};
static_assert(std::size(kOptNames) == kOptKinds);

std::string Text(const Opt& opt) {
  return Cat(kOptNames[static_cast<int>(opt.kind)], "(", opt.axis, ", ", opt.amount, ")");
}

std::optional<OptKind> OptKindOf(std::string_view name) {
  const auto* found = std::find(std::begin(kOptNames), std::end(kOptNames), name);
  if (found == std::end(kOptNames)) return std::nullopt;
  return static_cast<OptKind>(found - std::begin(kOptNames));
}

}  // namespace uopd::codegen
