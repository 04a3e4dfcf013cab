// SPDX-License-Identifier: MIT
#include "core/search/seeds.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;

constexpr int64_t kMostRegisters = 8;   // limit of the amount of an UPCAST
constexpr int64_t kMostColumns = 4;     // limit of the amount of a second UPCAST
constexpr int64_t kOtherRegisters = 4;  // for what is added to the sums of a tile

// How much of the axis an UPCAST takes: a short axis whole (0); else the largest amount from
// kMostRegisters / 2 to kMostRegisters that divides it, or kMostRegisters, with padding.
int64_t Registers(int64_t size) {
  if (size <= kMostRegisters) return 0;
  for (int64_t n = kMostRegisters; n >= kMostRegisters / 2; --n) {
    if (size % n == 0) return n;
  }
  return kMostRegisters;
}

// How much of `size` a second UPCAST takes beside `rows` copies: the largest amount that divides
// it, or the largest one at all, with padding, so that the tile fits into `most` registers. 0: none
// does.
int64_t Columns(int64_t size, int64_t rows, int64_t most) {
  int64_t out = 0;
  for (int64_t n = 2; n <= std::min({size, kMostColumns, most / rows}); ++n) {
    if (size % n == 0 || out == 0 || size % out != 0) out = n;
  }
  return out;
}

class SeedMaker {
 public:
  SeedMaker(const SearchSpace& kernel, const Target& target)
      : kernel_(kernel),
        target_(target),
        axes_(std::min<int>(static_cast<int>(kernel.axes.size()), kMaxAxes)),
        lanes_(target.vector_bytes / 4),
        threads_(Threads()) {}

  std::vector<Opts> Make() {
    std::vector<int> vectors;
    for (int i = 0; i < axes_; ++i) {
      if (Axis(i).size == 0 || Axis(i).size >= lanes_) vectors.push_back(i);
    }
    for (const int vector : vectors) Add(vector, {});
    for (int i = axes_; i-- > 0;) {
      const bool fills = !Axis(i).is_reduce && Axis(i).size > 1;
      for (const int vector : vectors) {
        if (fills && i != vector) Add(vector, {{OptKind::kUpcast, i, Registers(Axis(i).size)}});
      }
    }
    for (const int vector : vectors) {
      if (Axis(vector).is_reduce)
        AddWideSum(vector);
      else
        AddTiles(vector);
    }
    return std::move(out_);
  }

 private:
  const AxisInfo& Axis(int i) const { return kernel_.axes[static_cast<size_t>(i)]; }

  std::optional<Opt> Threads() const {
    if (target_.threads < 2) return std::nullopt;
    for (int i = 0; i < axes_; ++i) {
      if (!Axis(i).is_reduce && Axis(i).size >= target_.threads)
        return Opt{OptKind::kThread, i, target_.threads};
    }
    return std::nullopt;
  }

  // Two UPCASTs, one of them perhaps of the vectors' own axis, that fill the registers with sums.
  void AddTiles(int vector) {
    const int64_t most = target_.vector_registers - kOtherRegisters;
    for (int i = 0; i < axes_; ++i) {
      if (i == vector || Axis(i).is_reduce || Axis(i).size < kMostRegisters / 2) continue;
      const int64_t part = Registers(Axis(i).size), rows = part == 0 ? Axis(i).size : part;
      for (int j = 0; j < axes_; ++j) {
        if (j == i || Axis(j).is_reduce) continue;
        const int64_t size = j == vector ? Axis(j).size / lanes_ : Axis(j).size;
        const int64_t columns = Columns(size, rows, most);
        if (columns == 0) continue;
        Add(vector, {{OptKind::kUpcast, i, part},
                     {OptKind::kUpcast, j, columns == Axis(j).size ? 0 : columns}});
      }
    }
  }

  // VECTOR and UNROLL of one reduced axis: as many vectors of partial sums as the processor needs
  // to begin a product in every cycle. One opt without the other is slower, so no single moves lead
  // there.
  void AddWideSum(int vector) {
    const Speeds& speeds = target_.speeds;
    if (Axis(vector).size == 0) return;
    auto sums = static_cast<int64_t>(speeds.vector_products * speeds.product_cycles);
    while (sums > 1 && Axis(vector).size % (sums * lanes_) != 0) sums /= 2;
    if (sums > 1) Add(vector, {{OptKind::kUnroll, vector, sums}});
  }

  void Add(int vector, std::initializer_list<Opt> others) {
    Opts seed;
    if (threads_) seed.push_back(*threads_);
    if (lanes_ > 1) seed.push_back({OptKind::kVector, vector, lanes_});
    seed.insert(seed.end(), others);
    seed = Canonical(std::move(seed));
    if (std::ranges::find(out_, seed) == out_.end()) out_.push_back(std::move(seed));
  }

  const SearchSpace& kernel_;
  const Target& target_;
  const int axes_;
  const int64_t lanes_;
  const std::optional<Opt> threads_;
  std::vector<Opts> out_;
};

}  // namespace

std::vector<Opts> Seeds(const SearchSpace& kernel, const Target& target) {
  if (!codegen::MachineOf(target).tries_tiles) return {};
  return SeedMaker(kernel, target).Make();
}

}  // namespace uopd::search
