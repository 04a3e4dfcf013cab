// SPDX-License-Identifier: MIT
#include "core/schedule/limit_size.h"

#include <algorithm>

#include "core/ir/dtype.h"
#include "core/schedule/kernel_cost.h"
#include "core/schedule/lowering.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// Parts end between these, so that there is a choice, and room for what parts load and repeat.
constexpr double kLeast = 0.4, kMost = 0.8;
// Kept for later at one place: more would hardly fit into the memory of a device.
constexpr double kMostBytes = 4e9;

// A demand of the root.
struct Step {
  ValueRef value;
  double part = 0;    // of what a kernel may be
  uint32_t last = 0;  // the step that uses it last
  uint32_t keep = 0;  // the step whose value is kept instead: below its movement ops
  double bytes = 0;   // that keeping it takes; 0: it is in memory or costs nothing
};

class Cutter {
 public:
  Cutter(const Fusion& f, const KernelLimits& limits, Constraints& constraints)
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
    std::vector<double> dying(steps_.size() + 1);  // bytes that are kept up to a step
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      part += steps_[i].part;
      if (part > kMost && best > begin) {
        Cut(begin, best);
        // Again from there, with nothing to keep.
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
      if (part >= kLeast && i + 1 < steps_.size() && live > 0 && live <= kMostBytes && better) {
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
        step.keep = keep;  // which has the bytes
        return;
      }
    }
    step.bytes = mine;
  }

  // Writes what steps in [begin, end) make and later ones need.
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
  absl::flat_hash_map<uint32_t, Cutter> cutters;
  for (uint32_t r = 0; r < sizes.size(); ++r) {
    const KernelLimits& mine = limits[static_cast<size_t>(f.roots[r].device)];
    if (sizes[r].Part(mine) > 1) cutters.try_emplace(r, f, mine, constraints);
  }
  if (cutters.empty()) return;
  for (size_t i = 0; i < f.order.size(); ++i) {
    const auto& demands = f.info[i].demands;
    // What fills memory of the kernel comes before what loads from it.
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
