// SPDX-License-Identifier: MIT
#include "core/schedule/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace uopd::schedule {
namespace {

struct Life {
  size_t first = SIZE_MAX, last = 0;
  bool Overlaps(const Life& o) const { return first <= o.last && o.first <= last; }
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
  std::map<std::string, std::vector<size_t>> placed;  // by device, sorted by offset
  for (size_t t : by_size) {
    Temporary& temporary = schedule.temporaries[t];
    int64_t offset = 0;
    std::vector<size_t>& others = placed[temporary.device];
    for (size_t o : others) {
      const Temporary& other = schedule.temporaries[o];
      if (!lives[t].Overlaps(lives[o])) continue;
      if (offset + Aligned(temporary.bytes) <= other.offset) break;
      offset = std::max(offset, other.offset + Aligned(other.bytes));
    }
    temporary.offset = offset;
    others.insert(
        std::upper_bound(others.begin(), others.end(), offset,
                         [&](int64_t at, size_t o) { return at < schedule.temporaries[o].offset; }),
        t);
    int64_t& arena = arenas[temporary.device];
    arena = std::max(arena, offset + Aligned(temporary.bytes));
  }
  schedule.arenas.assign(arenas.begin(), arenas.end());
}

}  // namespace uopd::schedule
