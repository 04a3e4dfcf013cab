// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/heuristic/gpu_choice.h"

#include "core/codegen/gpu/grid.h"

namespace uopd::codegen {

bool GpuChoice::Add(OptKind kind, size_t axis, int64_t amount, int64_t warps) {
  if (!plan.Add({kind, static_cast<int>(axis), amount, warps}).ok()) return false;
  if (kind != OptKind::kPack && kind != OptKind::kTensorCore)
    left[axis] = (left[axis] + amount - 1) / amount;
  return true;
}

bool BecomesGrid(const KernelFacts& facts, size_t axis) {
  if (IsReduce(facts, axis)) return false;
  double repeated = 0, own = 0;
  for (const Result& r : facts.results) {
    const double terms = Times(facts, r.over);
    if ((r.path & AxisBit(axis)) != 0) {
      own += terms;
    } else if (terms >= kLongRepeated) {
      repeated += terms;
    }
  }
  if (repeated == 0) return true;
  return !facts.has_stages && repeated <= own;
}

double GridResults(const KernelFacts& facts) {
  double out = 1;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (BecomesGrid(facts, a)) out *= static_cast<double>(facts.sizes[a]);
  }
  return out;
}

bool IsContiguous(const KernelFacts& facts, size_t axis, bool loads) {
  bool any = false;
  for (const Access& x : facts.accesses) {
    if (x.is_store == loads || (loads && x.strides[axis] == 0)) continue;
    if (x.strides[axis] != 1) return false;
    any = true;
  }
  return any;
}

}  // namespace uopd::codegen
