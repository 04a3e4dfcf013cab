// SPDX-License-Identifier: MIT
#include "core/schedule/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace uopd::schedule {
namespace {

struct Life {
  size_t first = SIZE_MAX, last = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kTemporaryAlignment - 1) / kTemporaryAlignment * kTemporaryAlignment;
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
  std::vector<size_t> by_size(schedule.temporaries.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    const int64_t x = schedule.temporaries[a].bytes, y = schedule.temporaries[b].bytes;
    return x != y ? x > y : a < b;
  });

  std::map<std::string, int64_t> arenas;
  // Placed temporaries by the items that they are alive at. Those that meet a life are alive where it
  // begins, or begin within it.
  std::vector<std::vector<size_t>> alive(schedule.items.size()), begins(schedule.items.size());
  std::vector<size_t> others;
  for (size_t t : by_size) {
    Temporary& temporary = schedule.temporaries[t];
    const Life life = lives[t];
    if (life.first == SIZE_MAX) {  // nothing touches it
      temporary.bytes = 0;
      continue;
    }
    others = alive[life.first];
    for (size_t i = life.first + 1; i <= life.last; ++i)
      others.insert(others.end(), begins[i].begin(), begins[i].end());
    std::erase_if(others,
                  [&](size_t o) { return schedule.temporaries[o].device != temporary.device; });
    std::sort(others.begin(), others.end(), [&](size_t a, size_t b) {
      return schedule.temporaries[a].offset < schedule.temporaries[b].offset;
    });
    int64_t offset = 0;
    for (size_t o : others) {
      const Temporary& other = schedule.temporaries[o];
      if (offset + Aligned(temporary.bytes) <= other.offset) break;
      offset = std::max(offset, other.offset + Aligned(other.bytes));
    }
    temporary.offset = offset;
    begins[life.first].push_back(t);
    for (size_t i = life.first; i <= life.last; ++i) alive[i].push_back(t);
    int64_t& arena = arenas[temporary.device];
    arena = std::max(arena, offset + Aligned(temporary.bytes));
  }
  schedule.arenas.assign(arenas.begin(), arenas.end());
}

}  // namespace uopd::schedule
