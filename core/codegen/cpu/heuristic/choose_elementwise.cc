// SPDX-License-Identifier: MIT
// The copies of kernels without reductions (heuristic_steps.h): squares that are transposed in
// registers, or several vectors in each iteration.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/passes/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kShortAxis = 4;  // copied whole, where copies share loads

}  // namespace

void Heuristic::ChooseElementwiseUpcast() {
  if (ChooseSquare()) return;
  ChooseSharedCopies();
  for (size_t a = axes_.size(); a-- > 0;) {
    if (lanes_[a] == 1 || !fixed_[a]) continue;
    for (int64_t n : {4, 2}) {
      if (alu_.size() > 24 || left_[a] % n != 0 || left_[a] < 2 * n) continue;
      if (Upcast(a, n)) return;
    }
  }
}

void Heuristic::ChooseSharedCopies() {
  for (size_t a = axes_.size(); a-- > 0;) {
    if (lanes_[a] > 1 || !fixed_[a] || left_[a] < 2 || left_[a] > kShortAxis) continue;
    const bool shared = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
      return !x.is_store && x.strides[a] == 0 && HasLanes(x);
    });
    if (shared && VectorsAreStored() && Upcast(a, left_[a])) return;
  }
}

bool Heuristic::VectorsAreStored() const {
  return std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
    for (size_t v = 0; v < axes_.size() && x.is_store; ++v) {
      if (lanes_[v] > 1 && x.strides[v] != 1) return false;
    }
    return true;
  });
}

bool Heuristic::ChooseSquare() {
  for (const Access& x : accesses_) {
    for (size_t v = 0; v < axes_.size(); ++v) {
      const auto across = SquareAxis(x, v, lanes_[v]);
      if (across && Upcast(*across, lanes_[v])) return true;
    }
  }
  return false;
}

std::optional<size_t> Heuristic::SquareAxis(const Access& x, size_t axis, int64_t lanes) const {
  const auto stride = x.strides[axis];
  if (x.is_store || x.is_gated || reduces_ != 0 || has_stages_ || lanes < 4) return std::nullopt;
  if (!stride || std::abs(*stride) <= kSmallStride) return std::nullopt;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (x.strides[a] == 1 && fixed_[a] && sizes_[a] >= lanes) return a;
  }
  return std::nullopt;
}

}  // namespace uopd::codegen
