// SPDX-License-Identifier: MIT
#include "core/schedule/limits/limits.h"

#include <algorithm>
#include <vector>

#include "core/ir/dtype.h"
#include "core/rules/instructions.h"
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/lowering/lowering.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// Estimates how large the kernels of a fused graph will be, before they are lowered. The size
// decides how long a kernel takes to compile; LimitSizes divides kernels that are too large.
//
// The size is a number of instructions: the lines of the kernel's kernel (core/codegen/codegen.h)
// before loops are vectorised and unrolled. Codegen does that only as long as the kernel stays
// small. docs/schedule.md, "How large a kernel may be", has the limits.
struct KernelSize {
  double instructions = 0;
  int loops = 0;  // not counting the loops over the output
  // The size as a fraction of the limit that it is closest to; a kernel may have at most 1.
  double Part(const KernelLimits& limits) const {
    return std::max(instructions / limits.max_instructions,
                    static_cast<double>(loops) / limits.max_loops);
  }
};

constexpr double kAddress = 2;  // instructions of an address, for each axis of the buffer
constexpr double kLoop = 4;     // instructions of a loop: its variable, its end, its accumulator

// What demand d of u adds to the size of its root, without its operands, which are demands
// themselves.
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

// The sizes of all kernels, by root.
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

// A part ends at a size between these fractions of the limits. That leaves a choice of places, and
// room for the loads and the recomputed values that a part has in addition.
constexpr double kMinPart = 0.4, kMaxPart = 0.8;
// Most bytes that may be written at the end of a part: more would hardly fit into a device's
// memory.
constexpr double kMaxPartBytes = 4e9;

// One demand of the root.
struct Step {
  ValueRef value;
  double part = 0;    // its size, as a fraction of the limits (KernelSize::Part)
  uint32_t last = 0;  // the last step that uses the value
  uint32_t keep = 0;  // the step that is written instead of this one: the value below a view
  double bytes = 0;   // bytes if the value is written; 0: it is never written
};

class SizeCutter {
 public:
  SizeCutter(const Fusion& f, const KernelLimits& limits, Constraints& constraints)
      : f_(f), limits_(limits), constraints_(constraints) {}

  void Add(ValueRef v) {
    number_[Key(v)] = static_cast<uint32_t>(steps_.size());
    steps_.push_back({v});
  }

  void Run(const Root& root) {
    for (uint32_t i = 0; i < steps_.size(); ++i) Describe(i);
    for (const Output& out : root.outputs) {
      if (const auto it = number_.find(Key({out.value, out.demand})); it != number_.end())
        Use(it->second, static_cast<uint32_t>(steps_.size()));
    }
    double part = 0, live = 0, best_bytes = 0;
    uint32_t begin = 0, best = 0;
    // `live`: bytes of values that are computed before this place and used after it. `dying`: by
    // step, the bytes of the values that it uses last.
    std::vector<double> dying(steps_.size() + 1);
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      part += steps_[i].part;
      if (part > kMaxPart && best > begin) {
        Cut(begin, best);
        // Start the next part there: all values of the part before are in memory now.
        for (uint32_t j = begin; j < i; ++j) dying[steps_[j].last] = 0;
        i = begin = best;
        part = steps_[i].part;
        live = 0;
        best = 0;
      }
      live -= dying[i];
      if (steps_[i].last > i) {
        live += steps_[i].bytes;
        dying[steps_[i].last] += steps_[i].bytes;
      }
      const bool better = best <= begin || live <= best_bytes;
      if (part >= kMinPart && i + 1 < steps_.size() && live > 0 && live <= kMaxPartBytes &&
          better) {
        best = i + 1;
        best_bytes = live;
      }
    }
    if (part > 1 && best > begin) Cut(begin, best);
  }

 private:
  static std::pair<uint32_t, uint32_t> Key(ValueRef v) { return {v.node.id(), v.demand}; }
  const Demand& DemandOf(ValueRef v) const { return f_.at(v.node).demands[v.demand]; }

  void Use(uint32_t step, uint32_t by) {
    steps_[step].last = std::max(steps_[step].last, by);
    const uint32_t keep = steps_[step].keep;
    steps_[keep].last = std::max(steps_[keep].last, by);
  }

  void Describe(uint32_t i) {
    Step& step = steps_[i];
    const UOp u = step.value.node;
    const Demand& d = DemandOf(step.value);
    step.part = SizeOf(f_, u, d).Part(limits_);
    step.last = step.keep = i;
    const auto operands = Operands(f_, u, d);
    for (ValueRef o : operands) {
      if (const auto it = number_.find(Key(o)); it != number_.end()) Use(it->second, i);
    }
    const Way way = WayOf(f_, u, d);
    if (way == Way::kLoaded || IsUniform(u) || u.Is(Op::IOTA)) return;
    const NodeInfo& info = f_.at(u);
    const double mine = std::max(1.0, info.elements) * static_cast<double>(ir::ByteSize(u.dtype()));
    const bool passes = way == Way::kForwarded || way == Way::kStaged ||
                        u.Is(ir::kMovementOps | ir::OpSet{Op::AFTER, Op::CONTIGUOUS, Op::COPY});
    if (passes) {
      const auto from = operands.empty() ? number_.end() : number_.find(Key(operands[0]));
      if (from == number_.end()) return;
      const uint32_t keep = steps_[from->second].keep;
      if (steps_[keep].bytes <= mine || way != Way::kComputed) {
        step.keep = keep;
        return;
      }
    }
    step.bytes = mine;
  }

  // Ends a part: writes the values that steps in [begin, end) compute and later steps use.
  void Cut(uint32_t begin, uint32_t end) {
    const int32_t part = static_cast<int32_t>(constraints_.n_parts++);
    for (uint32_t i = begin; i < end; ++i) {
      Step& step = steps_[i];
      if (step.bytes > 0 && step.last >= end)
        constraints_.parts.try_emplace(step.value.node.id(), part);
      if (step.last >= end) step.bytes = 0;
    }
  }

  const Fusion& f_;
  const KernelLimits& limits_;
  Constraints& constraints_;
  std::vector<Step> steps_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> number_;
};

}  // namespace

void LimitSizes(const Fusion& f, const std::vector<KernelLimits>& limits,
                Constraints& constraints) {
  const std::vector<KernelSize> sizes = SizesOf(f);
  absl::flat_hash_map<uint32_t, SizeCutter> cutters;
  for (uint32_t r = 0; r < sizes.size(); ++r) {
    const KernelLimits& mine = limits[static_cast<size_t>(f.roots[r].device)];
    if (sizes[r].Part(mine) > 1) cutters.try_emplace(r, f, mine, constraints);
  }
  if (cutters.empty()) return;
  for (size_t i = 0; i < f.order.size(); ++i) {
    const auto& demands = f.info[i].demands;
    // A demand that fills a staged value comes before those that load the value.
    for (const bool fills : {true, false}) {
      for (uint32_t k = 0; k < demands.size(); ++k) {
        if (demands[k].fills != fills) continue;
        if (const auto it = cutters.find(demands[k].root); it != cutters.end())
          it->second.Add({f.order[i], k});
      }
    }
  }
  for (uint32_t r = 0; r < sizes.size(); ++r) {
    if (const auto it = cutters.find(r); it != cutters.end()) it->second.Run(f.roots[r]);
  }
}

}  // namespace uopd::schedule
