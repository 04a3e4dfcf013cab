// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/register_tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/base/target/machine_facts.h"
#include "core/base/text.h"

namespace uopd::codegen {
namespace {

// The numbers here are no facts of a machine. They were chosen so that the model prefers the tiles
// that take the least time.
//
// The model tries at most so many copies of one axis.
constexpr int64_t kMostCopies = 16;
// The part of the time of loads from the second-level cache that multiply-adds do not hide.
constexpr double kNotHidden = 0.3;
constexpr int64_t kWayBytes = 4096;  // addresses so far apart share a set of the first-level cache
constexpr double kVectorBytes = 16;  // at least: a load of several lanes
constexpr double kFar = 1.15;        // factor of vectors, or pieces of lines, kWayBytes apart
constexpr double kOverhead = 0.5;    // cycles of a step for the loop
// The part of the registers for the elements and factors of windows. An element of a window that
// shares little with its neighbours stays in a register for longer.
constexpr double kOfWindows = 11.0 / 16, kOfFarWindows = 0.75;

class Model {
 public:
  Model(std::span<const TileLoad> loads, const TileSums& sums, const Target& target)
      : loads_(loads), sums_(sums), target_(target) {}

  // The price of x copies along axis a and y along axis b, of threads that are all busy. Nothing if
  // the sums do not fit in the registers.
  std::optional<TilePrice> Price(const TileAxis& a, int64_t x, const TileAxis& b, int64_t y) const {
    const double accumulators = static_cast<double>(x * y);
    double loaded = 0, held = 0, work = 0, from_second = 0, from_memory = 0, largest = 0, far = 1;
    const uint64_t outer = uint64_t{1} << std::min(a.axis, b.axis);
    for (const TileLoad& l : loads_) {
      const double copies = Copies(l, a, x) * Copies(l, b, y);
      loaded += copies * l.instructions * l.often;
      work += copies * l.work * l.often;
      // The copies of the last axis are computed next to each other, so values that do not depend
      // on the other axis are needed again for each copy of it.
      if ((l.along & outer) == 0 && l.often == 1) held += copies;
      if (IsFar(l, a, x) || IsFar(l, b, y)) far = kFar;
      const double bytes = std::max(copies * l.bytes, BytesOfPieces(l, a, x, b, y));
      from_memory += copies * l.memory_bytes * l.often;
      // The panel of one load may stay in the first-level cache while the others stream by.
      if (Crowded(l, a, x, b, y)) {
        from_second += copies * kCacheLineBytes * l.often;
        continue;
      }
      from_second += bytes * l.often;
      if (bytes * l.steps <= FirstLevel() / 2) largest = std::max(largest, bytes * l.often);
    }
    from_second -= largest;
    double alive = accumulators * static_cast<double>(sums_.count);
    // Sums over windows are computed one after the other: the terms of one and the factors of all
    // are alive.
    int64_t slide = 0;
    for (const TileLoad& l : loads_) {
      for (const TileLoad::Window& w : l.windows) slide = std::max(slide, w.slide);
    }
    const double part = slide > 1 ? kOfFarWindows : kOfWindows;
    if (slide > 0 && accumulators > 1)
      alive += std::min(2 * static_cast<double>(sums_.terms) + 6, target_.vector_registers * part);
    if (alive + std::max(held, static_cast<double>(sums_.ahead)) + 1 > target_.vector_registers &&
        alive > static_cast<double>(sums_.count))
      return std::nullopt;
    const Speeds& speeds = target_.speeds;
    TilePrice out;
    const double products = accumulators * static_cast<double>(sums_.count);
    out.issue = std::max(products + work, loaded) / speeds.vector_products;
    // Sums that are unrolled whole do not wait for those of the tile before.
    out.latency = sums_.terms > 1 ? 0 : speeds.product_cycles;
    out.memory = from_memory / speeds.memory_bytes;
    out.loop = kOverhead / static_cast<double>(sums_.terms);
    out.second_level = kNotHidden * from_second / speeds.second_level_bytes;
    out.far = far;
    out.useful = Useful(a, x) * Useful(b, y);
    return out;
  }

 private:
  // Values that n copies along the axis load for one term of each sum.
  static double Copies(const TileLoad& l, const TileAxis& a, int64_t n) {
    if ((l.along >> a.axis & 1) == 0) return 1;
    for (const TileLoad::Window& w : l.windows) {
      if (w.axis == a.axis)
        return static_cast<double>((n - 1) * w.slide + w.size) / static_cast<double>(w.size);
    }
    return static_cast<double>(n);
  }
  // Bytes of the lines of the cache that the copies use pieces of, for one step. 0 if the copies
  // lie together, or if the steps use whole lines.
  static double BytesOfPieces(const TileLoad& l, const TileAxis& a, int64_t x, const TileAxis& b,
                              int64_t y) {
    if (l.bytes >= kVectorBytes || l.run_bytes >= kCacheLineBytes) return 0;
    int64_t lines = 1;
    for (const auto& [axis, n] : {std::pair(&a, x), std::pair(&b, y)}) {
      if (l.strides[axis->axis] >= kCacheLineBytes) lines *= n;
    }
    if (lines == 1) return 0;
    return static_cast<double>(lines * kCacheLineBytes) * l.bytes /
           static_cast<double>(l.run_bytes);
  }
  // Whether the copies along the axis are vectors, or pieces of lines, on different pages, instead
  // of neighbours.
  static bool IsFar(const TileLoad& l, const TileAxis& a, int64_t n) {
    return n > 1 && (l.bytes >= kVectorBytes || l.run_bytes < kCacheLineBytes) &&
           l.strides[a.axis] >= kWayBytes;
  }
  // Whether the copies map to so few sets of the first-level cache that they evict each other
  // before the next step uses the same lines. Copies whose addresses are less than a line apart
  // share it.
  bool Crowded(const TileLoad& l, const TileAxis& a, int64_t x, const TileAxis& b,
               int64_t y) const {
    int64_t lines = 1, apart = kWayBytes;
    for (const auto& [axis, n] : {std::pair(&a, x), std::pair(&b, y)}) {
      const int64_t stride = l.strides[axis->axis];
      if (n == 1 || stride < kCacheLineBytes) continue;
      lines *= n;
      apart = std::gcd(apart, stride);
    }
    if (lines == 1) return false;
    const int64_t sets = kWayBytes / apart;
    const auto ways = static_cast<int64_t>(FirstLevel()) / kWayBytes;
    return 3 * ((lines + sets - 1) / sets) > 2 * ways;
  }
  double FirstLevel() const {
    return target_.caches.empty() ? 32768.0 : static_cast<double>(target_.caches[0].bytes);
  }
  static double Useful(const TileAxis& a, int64_t n) {
    const int64_t rounds = (a.size + n - 1) / n;
    return static_cast<double>(a.size) / static_cast<double>(rounds * n);
  }

  const std::span<const TileLoad> loads_;
  const TileSums sums_;
  const Target& target_;
};

// The part of the time for which threads have work, if they share the axis that suits them best.
double Busy(std::span<const TileAxis> axes, const TileAxis& a, int64_t x, const TileAxis& b,
            int64_t y, int64_t threads) {
  double best = 0;
  for (const TileAxis& axis : axes) {
    if (!axis.splits) continue;
    const int64_t n = axis.axis == a.axis ? x : axis.axis == b.axis ? y : 1;
    const int64_t tiles = (axis.size + n - 1) / n;
    const int64_t rounds = (tiles + threads - 1) / threads;
    best = std::max(best, static_cast<double>(tiles) / static_cast<double>(rounds * threads));
  }
  return best > 0 ? best : 1;
}

// A tile: x copies of the axis at position i, and y copies of the axis at position j.
struct Copies {
  size_t i = 0, j = 0;
  int64_t x = 1, y = 1;
  double rate = 0;  // as Tile::rate
  TilePrice price;

  // A tile along one axis can be written with any other axis besides, of which it has one copy.
  bool IsSame(const Copies& o) const {
    if (x * y == 1 || o.x * o.y == 1) return x * y == o.x * o.y;
    if (x > 1 && y > 1) return i == o.i && j == o.j && x == o.x && y == o.y;
    const size_t mine = x > 1 ? i : j, others = o.x > 1 ? o.i : o.j;
    return (o.x == 1 || o.y == 1) && mine == others && x * y == o.x * o.y;
  }
};

}  // namespace

double TilePrice::Cycles() const {
  return std::max({issue, latency, memory}) + loop + second_level;
}

std::string TilePrice::Text() const {
  const auto round = [](double value) { return std::round(100 * value) / 100; };
  const double most = std::max({issue, latency, memory});
  const char* const what = most == issue     ? "to issue"
                           : most == latency ? "for the latency of a sum"
                                             : "for memory";
  std::string out = Cat(round(most), " ", what, " + ", round(loop), " for the loop");
  if (round(second_level) > 0) Append(out, " + ", round(second_level), " for the second level");
  if (far > 1) Append(out, ", times ", far, " for other pages");
  if (round(useful) < 1) Append(out, ", ", std::round(100 * useful), " % useful");
  if (round(busy) < 1) Append(out, ", threads busy for ", std::round(100 * busy), " % of the time");
  return out;
}

Tile ChooseRegisterTile(std::span<const TileAxis> axes, std::span<const TileLoad> loads,
                        const TileSums& sums, const Target& target, Tile* maybe_next) {
  const Model model(loads, sums, target);
  const auto fits = [&](const TileAxis& a, int64_t n) {
    return n <= std::min(a.size, a.most) &&
           (!sums.joins || std::has_single_bit(static_cast<uint64_t>(n)));
  };
  Copies best, next;
  for (size_t i = 0; i < axes.size(); ++i) {
    // Two different axes, or one alone (j == i, y == 1).
    for (size_t j = i; j < axes.size(); ++j) {
      for (int64_t x = 1; x <= kMostCopies; ++x) {
        if (!fits(axes[i], x)) continue;
        for (int64_t y = 1; y <= (j == i ? 1 : kMostCopies); ++y) {
          if (!fits(axes[j], y)) continue;
          std::optional<TilePrice> price = model.Price(axes[i], x, axes[j], y);
          if (!price.has_value()) continue;
          price->busy = Busy(axes, axes[i], x, axes[j], y, sums.threads);
          const double rate = static_cast<double>(x * y) * price->useful /
                              (price->Cycles() * price->far) * price->busy;
          const bool wins = rate > 1.001 * best.rate;
          if (!wins && rate <= next.rate) continue;
          Copies copies{i, j, x, y, rate, *price};
          if (wins) std::swap(best, copies);
          if (copies.rate > next.rate && !copies.IsSame(best)) next = copies;
        }
      }
    }
  }
  const auto tile_of = [&](const Copies& c) {
    Tile out{{}, c.x * c.y, c.rate, c.price};
    if (c.x > 1) out.amounts.emplace_back(axes[c.i].axis, c.x);
    if (c.y > 1) out.amounts.emplace_back(axes[c.j].axis, c.y);
    return out;
  };
  if (maybe_next != nullptr) *maybe_next = tile_of(next);
  return tile_of(best);
}

}  // namespace uopd::codegen
