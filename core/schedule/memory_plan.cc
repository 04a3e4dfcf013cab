// SPDX-License-Identifier: MIT
#include "core/schedule/memory_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

namespace uopd::schedule {
namespace {

struct Life {
  size_t first = SIZE_MAX, last = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kTemporaryAlignment - 1) / kTemporaryAlignment * kTemporaryAlignment;
}

// One way to place every temporary.
struct Plan {
  std::vector<int64_t> offsets;
  std::map<std::string, int64_t> arenas;

  int64_t Total() const {
    int64_t total = 0;
    for (const auto& [device, bytes] : arenas) total += bytes;
    return total;
  }
};

// Each in turn at the lowest offset that is free over its whole life.
Plan Place(const Schedule& schedule, const std::vector<Life>& lives,
           const std::vector<size_t>& order) {
  Plan plan;
  plan.offsets.resize(schedule.temporaries.size(), 0);
  // Placed temporaries by the items that they are alive at. Those that meet a life are alive where
  // it begins, or begin within it.
  std::vector<std::vector<size_t>> alive(schedule.items.size()), begins(schedule.items.size());
  std::vector<size_t> others;
  for (size_t t : order) {
    const Temporary& temporary = schedule.temporaries[t];
    const Life life = lives[t];
    others = alive[life.first];
    for (size_t i = life.first + 1; i <= life.last; ++i)
      others.insert(others.end(), begins[i].begin(), begins[i].end());
    std::erase_if(others,
                  [&](size_t o) { return schedule.temporaries[o].device != temporary.device; });
    std::sort(others.begin(), others.end(),
              [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    int64_t offset = 0;
    for (size_t o : others) {
      if (offset + Aligned(temporary.bytes) <= plan.offsets[o]) break;
      offset = std::max(offset, plan.offsets[o] + Aligned(schedule.temporaries[o].bytes));
    }
    plan.offsets[t] = offset;
    begins[life.first].push_back(t);
    for (size_t i = life.first; i <= life.last; ++i) alive[i].push_back(t);
    int64_t& arena = plan.arenas[temporary.device];
    arena = std::max(arena, offset + Aligned(temporary.bytes));
  }
  return plan;
}

}  // namespace

void PlanMemory(Schedule& schedule) {
  std::vector<Life> lives(schedule.temporaries.size());
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    for (const BufferRef& b : schedule.items[i].buffers) {
      if (b.kind != BufferRef::kTemporary) continue;
      Life& life = lives[static_cast<size_t>(b.index)];
      life.first = std::min(life.first, i), life.last = std::max(life.last, i);
    }
  }
  std::vector<size_t> order;
  for (size_t t = 0; t < lives.size(); ++t) {
    if (lives[t].first == SIZE_MAX)
      schedule.temporaries[t].bytes = 0;  // nothing touches it
    else
      order.push_back(t);
  }
  // The largest first leaves small ones the gaps; among equals, and where sizes hardly differ, in
  // order of birth no more are needed than are ever alive together. The best of the three is kept.
  auto by = [&](auto key) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(-key(schedule.temporaries[a].bytes), lives[a].first, a) <
             std::tuple(-key(schedule.temporaries[b].bytes), lives[b].first, b);
    });
    return Place(schedule, lives, order);
  };
  Plan best = by([](int64_t bytes) { return bytes; });
  auto improve = [&](Plan other) {
    if (other.Total() < best.Total()) best = std::move(other);
  };
  improve(by([](int64_t bytes) {
    return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(bytes)));
  }));
  improve(by([](int64_t) { return int64_t{0}; }));
  for (size_t t = 0; t < lives.size(); ++t) schedule.temporaries[t].offset = best.offsets[t];
  schedule.arenas.assign(best.arenas.begin(), best.arenas.end());
}

}  // namespace uopd::schedule
