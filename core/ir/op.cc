// SPDX-License-Identifier: MIT
#include "core/ir/op.h"

#include <array>

namespace uopd::ir {
namespace {

constexpr bool WireNumbersAreUnique() {
  for (int i = 0; i < kOpCount; ++i) {
    for (int j = 0; j < i; ++j) {
      if (kOps[i].wire == kOps[j].wire) return false;
    }
  }
  return true;
}
static_assert(WireNumbersAreUnique(), "two ops share a wire number");

constexpr int kMaxWire = 256;
constexpr std::array<int16_t, kMaxWire> kByWire = [] {
  std::array<int16_t, kMaxWire> table{};
  for (auto& t : table) t = -1;
  for (int i = 0; i < kOpCount; ++i) table[kOps[i].wire] = static_cast<int16_t>(i);
  return table;
}();

constexpr std::string_view kAxisNames[] = {"LOOP",   "THREAD", "GLOBAL", "LOCAL",
                                           "REDUCE", "UPCAST", "UNROLL", "VECTOR"};
static_assert(std::size(kAxisNames) == kAxisTypeCount);
constexpr std::string_view kSpaceNames[] = {"GLOBAL", "LOCAL", "REG"};

}  // namespace

std::optional<Op> OpByName(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i) {
    if (kOps[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

std::optional<Op> OpByWire(uint64_t wire) {
  if (wire >= kMaxWire || kByWire[wire] < 0) return std::nullopt;
  return static_cast<Op>(kByWire[wire]);
}

std::string_view Name(AxisType type) { return kAxisNames[static_cast<int>(type)]; }
std::string_view Name(AddrSpace space) { return kSpaceNames[static_cast<int>(space)]; }

std::optional<AxisType> AxisTypeByName(std::string_view name) {
  for (int i = 0; i < kAxisTypeCount; ++i) {
    if (kAxisNames[i] == name) return static_cast<AxisType>(i);
  }
  return std::nullopt;
}

std::optional<AddrSpace> AddrSpaceByName(std::string_view name) {
  for (int i = 0; i < 3; ++i) {
    if (kSpaceNames[i] == name) return static_cast<AddrSpace>(i);
  }
  return std::nullopt;
}

}  // namespace uopd::ir
