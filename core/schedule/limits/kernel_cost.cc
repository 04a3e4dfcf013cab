// SPDX-License-Identifier: MIT
#include "core/schedule/limits/kernel_cost.h"

#include "core/rules/instructions.h"
#include "core/schedule/lowering/lowering.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

constexpr double kAddress = 2;  // instructions of an address, for each axis of the buffer
constexpr double kLoop = 4;     // instructions of a loop: its variable, its end, its accumulator

}  // namespace

KernelSize SizeOf(const Fusion& fusion, UOp u, const Demand& d) {
  switch (WayOf(fusion, u, d)) {
    case Way::kForwarded:
      return {};
    case Way::kLoaded:
    case Way::kStaged:
      return {kAddress * static_cast<double>(d.access->index.size()) + 1, 0};
    case Way::kComputed:
      break;
  }
  KernelSize size;
  if (u.Is(Op::REDUCE)) {
    size.loops = static_cast<int>(d.reduce_ranges.size());
    size.instructions = kLoop * (size.loops + 1) + rules::RoundingInstructions(u.dtype());
  } else if (u.Is(Op::SCAN)) {
    size.instructions = kLoop + rules::RoundingInstructions(u.dtype());
  } else if (u.Is(Op::STACK)) {
    size.instructions = 2 * static_cast<double>(u.n_src());
  } else if (u.Is(Op::PAD)) {
    size.instructions = 3;
  } else {
    size.instructions = rules::Instructions(u);
  }
  if (d.fills) size.loops += static_cast<int>(d.access->index.size());
  return size;
}

std::vector<KernelSize> SizesOf(const Fusion& fusion) {
  std::vector<KernelSize> sizes(fusion.roots.size());
  for (size_t i = 0; i < fusion.order.size(); ++i) {
    const UOp u = fusion.order[i];
    for (const Demand& d : fusion.info[i].demands) {
      const KernelSize size = SizeOf(fusion, u, d);
      sizes[d.root].instructions += size.instructions;
      sizes[d.root].loops += size.loops;
    }
  }
  return sizes;
}

}  // namespace uopd::schedule
