// SPDX-License-Identifier: MIT
#include "core/interp/squads.h"

#include <algorithm>
#include <numeric>

namespace uopd::interp {

std::vector<Squad> SquadsOf(const Program& program, int64_t warp_lanes, size_t threads) {
  std::vector<Squad> out;
  size_t all = 0;
  for (const uint32_t begin : program.roles()) {
    const Instruction& in = program.instructions()[begin];
    const auto add = [&](int64_t first, int64_t n) {
      Squad squad;
      squad.first = static_cast<size_t>(first);
      squad.n = static_cast<size_t>(n);
      squad.pc = begin + 1;
      squad.end = in.end;
      out.push_back(std::move(squad));
    };
    if (in.role.first < 0 || static_cast<size_t>(in.role.first + in.role.count) > threads)
      return {};
    all += static_cast<size_t>(in.role.count);
    // Threads that are not active are done.
    const int64_t unit = std::max(program.group_lanes(), warp_lanes);
    if (in.role.active % unit != 0) {
      add(in.role.first, in.role.active);
      continue;
    }
    for (int64_t t = 0; t < in.role.active; t += unit) add(in.role.first + t, unit);
  }
  if (all != threads || out.size() > Memory::kMostSquads) return {};
  return out;
}

Interleaving::Interleaving(uint64_t seed, size_t squads)
    : random_(seed), any_(seed % 4 == 3), order_(squads), stuck_(squads, false) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (seed % 4 == 1) std::ranges::reverse(order_);
  if (seed % 4 == 2) std::ranges::shuffle(order_, random_);
}

std::optional<Interleaving::Turn> Interleaving::MaybeNext(const std::vector<Squad>& squads) {
  if (any_) std::ranges::shuffle(order_, random_);
  for (const size_t s : order_) {
    if (squads[s].IsDone() || stuck_[s]) continue;
    return Turn{s, any_ ? random_() % kMostSteps + 1 : kMostSteps};
  }
  return std::nullopt;
}

void Interleaving::Ran(size_t squad, bool moved) {
  if (moved) std::fill(stuck_.begin(), stuck_.end(), false);
  stuck_[squad] = !moved;
}

}  // namespace uopd::interp
