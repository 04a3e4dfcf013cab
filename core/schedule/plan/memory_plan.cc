// SPDX-License-Identifier: MIT
#include "core/schedule/plan/plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

namespace uopd::schedule {
namespace {

// With more temporaries than this, PlaceAtBirth is used, which does not compare all lifetimes.
constexpr size_t kMaxCompared = 2048;

// The first and the last item that use a temporary.
struct Life {
  size_t first = SIZE_MAX, last = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kTemporaryAlignment - 1) / kTemporaryAlignment * kTemporaryAlignment;
}

// The temporaries that are placed in one arena, by offset. Besides the list of all, there is a list
// of those alive in each stretch of kStretch items, so that a short lifetime is compared with few.
class PlannedArena {
 public:
  explicit PlannedArena(size_t items) : stretches_(items / kStretch + 1) {}

  // The lowest offset at which this many bytes are free over the whole lifetime.
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

// The free bytes of one arena at one item.
class Gaps {
 public:
  // Takes bytes from the lower end of the smallest gap that is large enough; else extends the
  // arena.
  int64_t Take(int64_t bytes) {
    if (bytes == 0) return 0;
    int64_t offset = size_;
    if (const auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end()) {
      const auto [size, begin] = *fit;
      offset = begin;
      Erase(begin);
      if (size > bytes) Insert(begin + bytes, begin + size);
    } else if (!ends_.empty() && ends_.rbegin()->second == size_) {
      offset = ends_.rbegin()->first;
      Erase(offset);
    }
    size_ = std::max(size_, offset + bytes);
    return offset;
  }
  void Give(int64_t begin, int64_t bytes) {
    if (bytes == 0) return;
    int64_t end = begin + bytes;
    if (const auto next = ends_.find(end); next != ends_.end()) {
      end = next->second;
      Erase(next->first);
    }
    const auto above = ends_.lower_bound(begin);
    if (above != ends_.begin() && std::prev(above)->second == begin) {
      begin = std::prev(above)->first;
      Erase(begin);
    }
    Insert(begin, end);
  }
  int64_t size() const { return size_; }

 private:
  void Insert(int64_t begin, int64_t end) {
    ends_[begin] = end;
    by_size_.emplace(end - begin, begin);
  }
  void Erase(int64_t begin) {
    const auto it = ends_.find(begin);
    by_size_.erase({it->second - begin, begin});
    ends_.erase(it);
  }

  std::map<int64_t, int64_t> ends_;                // begin of a gap -> its end
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size and begin of every gap
  int64_t size_ = 0;
};

// One way to place every temporary.
struct Plan {
  std::vector<int64_t> offsets;
  std::map<std::string_view, int64_t> arenas;  // device -> bytes

  int64_t Total() const {
    int64_t total = 0;
    for (const auto& [device, bytes] : arenas) total += bytes;
    return total;
  }
};

// Places the temporaries in this order, each at the lowest offset that is free over its lifetime.
Plan Place(const Schedule& schedule, const std::vector<Life>& lives,
           const std::vector<size_t>& order) {
  Plan plan;
  plan.offsets.resize(schedule.temporaries.size(), 0);
  std::map<std::string_view, PlannedArena> arenas;
  for (size_t t : order) {
    const Temporary& temporary = schedule.temporaries[t];
    const int64_t bytes = Aligned(temporary.bytes);
    PlannedArena& arena = arenas.try_emplace(temporary.device, schedule.items.size()).first->second;
    plan.offsets[t] = arena.LowestFree(lives[t], bytes);
    arena.Add(lives[t], plan.offsets[t], bytes);
  }
  for (const auto& [device, arena] : arenas) plan.arenas[device] = arena.size();
  return plan;
}

// Places every temporary in the order of births, in the smallest gap at that item. Takes n log n
// steps; Place takes up to n³.
Plan PlaceAtBirth(const Schedule& schedule, const std::vector<Life>& lives) {
  Plan plan;
  plan.offsets.resize(lives.size(), 0);
  std::map<std::string_view, Gaps> arenas;
  std::vector<size_t> births(lives.size());
  std::iota(births.begin(), births.end(), size_t{0});
  std::vector<size_t> deaths = births;
  std::sort(births.begin(), births.end(), [&](size_t a, size_t b) {
    return std::pair(lives[a].first, a) < std::pair(lives[b].first, b);
  });
  std::sort(deaths.begin(), deaths.end(), [&](size_t a, size_t b) {
    return std::pair(lives[a].last, a) < std::pair(lives[b].last, b);
  });
  auto dead = deaths.begin();
  for (size_t t : births) {
    for (; lives[*dead].last < lives[t].first; ++dead) {
      const Temporary& gone = schedule.temporaries[*dead];
      arenas[gone.device].Give(plan.offsets[*dead], Aligned(gone.bytes));
    }
    const Temporary& temporary = schedule.temporaries[t];
    plan.offsets[t] = arenas[temporary.device].Take(Aligned(temporary.bytes));
  }
  for (const auto& [device, gaps] : arenas) plan.arenas[device] = gaps.size();
  return plan;
}

// The best plan of three orders: by size, largest first; by size rounded down to a power of two,
// largest first; by birth. Largest first leaves the gaps to small temporaries. The order of births
// is optimal if all sizes are equal.
Plan PlaceWell(const Schedule& schedule, const std::vector<Life>& lives) {
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
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
  return best;
}

std::vector<Life> LivesOf(const Schedule& schedule) {
  std::vector<Life> lives(schedule.temporaries.size());
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    for (const BufferRef& b : schedule.items[i].buffers) {
      if (b.kind != BufferRef::kTemporary) continue;
      Life& life = lives[static_cast<size_t>(b.index)];
      life.first = std::min(life.first, i);
      life.last = std::max(life.last, i);
    }
  }
  return lives;
}

// Drops temporaries that no item uses, such as those of values without elements.
void DropUntouched(Schedule& schedule, std::vector<Life>& lives) {
  size_t kept = 0;
  std::vector<int64_t> number(lives.size(), -1);
  for (size_t t = 0; t < lives.size(); ++t) {
    if (lives[t].first == SIZE_MAX) continue;
    number[t] = static_cast<int64_t>(kept);
    if (kept != t) {
      lives[kept] = lives[t];
      schedule.temporaries[kept] = std::move(schedule.temporaries[t]);
    }
    ++kept;
  }
  if (kept == lives.size()) return;
  lives.resize(kept);
  schedule.temporaries.resize(kept);
  for (Item& item : schedule.items) {
    for (BufferRef& b : item.buffers) {
      if (b.kind == BufferRef::kTemporary) b.index = number[static_cast<size_t>(b.index)];
    }
  }
}

}  // namespace

void PlanMemory(Schedule& schedule) {
  std::vector<Life> lives = LivesOf(schedule);
  DropUntouched(schedule, lives);
  const bool few = lives.size() <= kMaxCompared;
  const Plan best = few ? PlaceWell(schedule, lives) : PlaceAtBirth(schedule, lives);
  for (size_t t = 0; t < lives.size(); ++t) schedule.temporaries[t].offset = best.offsets[t];
  schedule.arenas.clear();
  for (const auto& [device, bytes] : best.arenas)
    schedule.arenas.emplace_back(std::string(device), bytes);
}

}  // namespace uopd::schedule
