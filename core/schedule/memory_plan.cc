// SPDX-License-Identifier: MIT
#include "core/schedule/memory_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <tuple>

namespace uopd::schedule {
namespace {

struct Life {
  size_t first = SIZE_MAX, last = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kTemporaryAlignment - 1) / kTemporaryAlignment * kTemporaryAlignment;
}

// What is placed in one arena, by offset: everything, and again what is alive in each stretch of
// items, so that a short life is compared with few others.
class Arena {
 public:
  explicit Arena(size_t items) : stretches_(items / kStretch + 1) {}

  // The lowest offset at which so many bytes are free over the whole life.
  int64_t LowestFree(Life life, int64_t bytes) const {
    const size_t stretch = life.first / kStretch;
    int64_t offset = 0;
    for (const Placed& p : stretch == life.last / kStretch ? stretches_[stretch] : all_) {
      if (p.life.last < life.first || life.last < p.life.first) continue;
      if (offset + bytes <= p.begin) break;
      offset = std::max(offset, p.end);
    }
    return offset;
  }
  void Add(Life life, int64_t offset, int64_t bytes) {
    const Placed placed = {offset, offset + bytes, life};
    Insert(all_, placed);
    for (size_t s = life.first / kStretch; s <= life.last / kStretch; ++s)
      Insert(stretches_[s], placed);
    size_ = std::max(size_, placed.end);
  }
  int64_t size() const { return size_; }

 private:
  static constexpr size_t kStretch = 64;
  struct Placed {
    int64_t begin, end;
    Life life;
  };
  static void Insert(std::vector<Placed>& list, const Placed& placed) {
    const auto at = std::upper_bound(list.begin(), list.end(), placed,
                                     [](auto& a, auto& b) { return a.begin < b.begin; });
    list.insert(at, placed);
  }

  std::vector<Placed> all_;
  std::vector<std::vector<Placed>> stretches_;
  int64_t size_ = 0;
};

// One way to place every temporary.
struct Plan {
  std::vector<int64_t> offsets;
  std::map<std::string_view, Arena> arenas;  // by device

  int64_t Total() const {
    int64_t total = 0;
    for (const auto& [device, arena] : arenas) total += arena.size();
    return total;
  }
};

// Each in turn at the lowest offset that is free over its whole life.
Plan Place(const Schedule& schedule, const std::vector<Life>& lives,
           const std::vector<size_t>& order) {
  Plan plan;
  plan.offsets.resize(schedule.temporaries.size(), 0);
  for (size_t t : order) {
    const Temporary& temporary = schedule.temporaries[t];
    const int64_t bytes = Aligned(temporary.bytes);
    Arena& arena = plan.arenas.try_emplace(temporary.device, schedule.items.size()).first->second;
    plan.offsets[t] = arena.LowestFree(lives[t], bytes);
    arena.Add(lives[t], plan.offsets[t], bytes);
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
  schedule.arenas.clear();
  for (const auto& [device, arena] : best.arenas)
    schedule.arenas.emplace_back(std::string(device), arena.size());
}

}  // namespace uopd::schedule
