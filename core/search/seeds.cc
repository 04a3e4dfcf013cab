// SPDX-License-Identifier: MIT
#include "core/search/seeds.h"

#include <algorithm>
#include <optional>

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;

constexpr int64_t kMostRegisters = 8;  // that an UPCAST of a seed fills

// How much of the axis an UPCAST takes: a short axis whole (0); else the largest amount from kMostRegisters / 2 to
// kMostRegisters that divides it, or kMostRegisters, with padding.
int64_t Registers(int64_t size) {
  if (size <= kMostRegisters) return 0;
  for (int64_t n = kMostRegisters; n >= kMostRegisters / 2; --n) {
    if (size % n == 0) return n;
  }
  return kMostRegisters;
}

std::optional<Opt> Threads(const KernelInfo& kernel, const Target& target, int axes) {
  if (target.threads < 2) return std::nullopt;
  for (int i = 0; i < axes; ++i) {
    const AxisInfo& axis = kernel.axes[static_cast<size_t>(i)];
    if (!axis.is_reduce && axis.size >= target.threads)
      return Opt{OptKind::kThread, i, target.threads};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Opts> Seeds(const KernelInfo& kernel, const Target& target) {
  std::vector<Opts> out;
  if (target.blocks) return out;
  const int axes = std::min<int>(static_cast<int>(kernel.axes.size()), kMaxAxes);
  const auto axis = [&](int i) -> const AxisInfo& { return kernel.axes[static_cast<size_t>(i)]; };
  const int64_t lanes = target.vector_bytes / 4;
  const std::optional<Opt> threads = Threads(kernel, target, axes);
  const auto add = [&](int vector, std::optional<Opt> registers) {
    Opts seed;
    if (threads) seed.push_back(*threads);
    if (lanes > 1) seed.push_back({OptKind::kVector, vector, lanes});
    if (registers) seed.push_back(*registers);
    seed = Canonical(std::move(seed));
    if (std::ranges::find(out, seed) == out.end()) out.push_back(std::move(seed));
  };
  std::vector<int> vectors;
  for (int i = 0; i < axes; ++i) {
    if (axis(i).size == 0 || axis(i).size >= lanes) vectors.push_back(i);
  }
  for (const int vector : vectors) add(vector, std::nullopt);
  for (int i = axes; i-- > 0;) {
    const bool fills = !axis(i).is_reduce && axis(i).size > 1;
    for (const int vector : vectors) {
      if (fills && i != vector) add(vector, Opt{OptKind::kUpcast, i, Registers(axis(i).size)});
    }
  }
  return out;
}

}  // namespace uopd::search
