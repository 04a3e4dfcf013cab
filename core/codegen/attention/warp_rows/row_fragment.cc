// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/row_fragment.h"

#include <algorithm>
#include <bit>

namespace uopd::codegen {
namespace {

using Bits = std::vector<Fragment::Bit>;

std::optional<int> PlaceOf(const Bits& bits, int bit) {
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i].bit == bit) return static_cast<int>(i);
  }
  return std::nullopt;
}

bool SplitLanes(RowFragment& f) {
  for (const Fragment::Bit& b : f.sum().lane) {
    if (b.axis == '-') return false;
    const bool first = f.high.empty() && (f.low.empty() || f.low[0].axis == b.axis);
    Bits& field = first ? f.low : f.high;
    if (!field.empty() && field[0].axis != b.axis) return false;
    field.push_back(b);
  }
  return !f.low.empty() && !f.high.empty();
}

bool MatchOperand(RowFragment& f) {
  const Fragment& operand = f.of_rows();
  const int key_bits = std::countr_zero(static_cast<uint64_t>(f.others()));
  if (f.instruction.k < f.others() || operand.lane.size() != f.sum().lane.size()) return false;
  for (size_t i = 0; i < operand.lane.size(); ++i) {
    Fragment::Bit b = operand.lane[i];
    if (b.axis == 'k') b.axis = b.bit < key_bits ? f.other() : '-';
    if (b.axis == '-' || b != f.sum().lane[i]) return false;
  }
  for (const Fragment::Bit& b : operand.element) {
    if (b.axis == 'k' && b.bit >= key_bits) {
      f.operand.push_back({'t', b.bit - key_bits});
      continue;
    }
    const bool key = b.axis == 'k';
    const auto at = PlaceOf(key ? f.other_results : f.own_results, b.bit);
    if (!at) return false;
    f.operand.push_back({key ? 'e' : 'q', *at});
  }
  return true;
}

}  // namespace

std::optional<RowFragment> RowFragment::MaybeOf(const MatrixInstruction& instruction) {
  for (const bool swapped : {false, true}) {
    RowFragment out;
    out.instruction = instruction;
    out.swapped = swapped;
    for (const Fragment::Bit& b : out.sum().element)
      (b.axis == out.own() ? out.own_results : out.other_results).push_back(b);
    if (SplitLanes(out) && MatchOperand(out)) return out;
  }
  return std::nullopt;
}

}  // namespace uopd::codegen
