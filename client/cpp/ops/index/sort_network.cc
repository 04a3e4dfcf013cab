// SPDX-License-Identifier: MIT
// Batcher's bitonic sorter, in the form where all exchanges have the same direction (K. E. Batcher,
// Sorting networks and their applications, 1968): for blocks of 2, 4, 8, ... elements, first those
// that mirror each other in a block are compared, then those that are a quarter of the block apart,
// an eighth, and so on. Most comparisons are between elements that are close together, which no
// vector could load. So the array lies in memory in another order of the bits of the position:
//
//   position p (bits)    [L-1 ... M] [M-1 ... 0]
//   place in memory      [M-1 ... 0] [M ... L-1] [row]
//
// The elements that are compared are then at least 2^(L-M) * rows apart, but for the first few
// comparisons of the last few blocks. A kernel does two comparisons of each element: that is, it
// sorts four elements.
#include "client/cpp/ops/index/sort_network.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

constexpr int64_t kContiguous =
    16;  // elements that lie together where two such groups are compared

Tensor Integer(const Tensor& like, Dtype dtype, ir::Int128 v) {
  return Made(like, Ctx(like).Int(dtype, v), "Sort", Site::current());
}

// Signed integers in the order of the elements, and the number of bits that they need.
struct Keys {
  Tensor key;  // i32 or i64
  int bits = 32;
};

Keys KeysOf(const Tensor& x, Site site) {
  const Dtype d = x.dtype();
  if (!ir::IsFloat(d)) {
    const bool half =
        ir::IsUnsigned(d) || d == Dtype::Bool;  // of the range is beyond the signed one
    const int bits = d == Dtype::Bool ? 8 : ir::Bits(d);
    if (bits < 32) {
      const Tensor key = x.Cast(Dtype::I32, site);
      return {half ? key - (1 << (bits - 1)) : key, bits};
    }
    const Dtype to = bits == 32 ? Dtype::I32 : Dtype::I64;
    if (!half) return {x, bits};
    return {x.Bitcast(to, site) ^ Integer(x, to, ir::RangeOf(to).min), bits};
  }
  // The bits of a positive float ascend with it, those of a negative one descend.
  const bool small = d == Dtype::F16 || d == Dtype::BF16;
  const Tensor t = ir::Bits(d) == 8 ? x.Cast(Dtype::F32, site) : x;
  const int bits = ir::Bits(t.dtype());
  const Dtype to = bits == 64 ? Dtype::I64 : Dtype::I32;
  const Tensor whole =
      small ? t.Bitcast(Dtype::I16, site).Cast(Dtype::I32, site) : t.Bitcast(to, site);
  const ir::Int128 most = (ir::Int128{1} << (bits - 1)) - 1;
  const Tensor largest = Integer(x, to, most);
  const Tensor ordered = whole ^ ((whole >> (bits - 1)) & largest);
  // Both zeros are 0; -0 would be -1.
  const Tensor key = Where(t == 0.0, Integer(x, to, 0), ordered);
  return {Where(t.IsNan(site), largest, key), bits};
}

// What lies in memory as this file's head says, and where each bit of a position is.
struct Layout {
  int bits = 0;   // L
  int lines = 0;  // M
  int64_t rows = 1;

  // The bits from the outermost one on.
  std::vector<int> Order() const {
    std::vector<int> out;
    for (int i = lines; i-- > 0;) out.push_back(i);
    for (int i = lines; i < bits; ++i) out.push_back(i);
    return out;
  }
};

// A view of the array for comparisons along one or two bits: those have axes of their own. All
// lower bits have axes that are mirrored together.
struct NetworkView {
  Dims dims;
  std::vector<int64_t> bit_axes;  // of the compared bits, from the outermost one on
  Dims mirrored;                  // axes without those of the compared bits
};

NetworkView NetworkViewOf(const Layout& layout, int lowest, int count) {
  NetworkView out;
  Dims kept;       // numbers of axes when those of the compared bits are gone
  int group = -1;  // of the last axis: 0: higher bits; 1: lower bits; -1: a compared bit, or none
  int64_t left = 0;
  for (int bit : layout.Order()) {
    if (bit >= lowest && bit < lowest + count) {
      out.bit_axes.push_back(static_cast<int64_t>(out.dims.size()));
      out.dims.push_back(2);
      group = -1;
      continue;
    }
    const int mine = bit < lowest ? 1 : 0;
    if (mine == group) {
      out.dims.back() *= 2;
      continue;
    }
    out.dims.push_back(2);
    if (mine == 1) out.mirrored.push_back(left);
    ++left;
    group = mine;
  }
  out.dims.push_back(layout.rows);
  return out;
}

// True where the words of a come after those of b.
Tensor After(const SortWords& a, const SortWords& b) {
  const Tensor more = b.high < a.high;
  return a.joined() ? more : more | ((a.high == b.high) & (b.low < a.low));
}

template <class F>
SortWords Each(const SortWords& w, F f) {
  return {f(w.high), w.joined() ? Tensor() : f(w.low), w.position_bits};
}

// Puts two words into order.
void Exchange(SortWords& a, SortWords& b, Site site) {
  const Tensor swap = After(a, b);
  auto choose = [&](const Tensor& x, const Tensor& y) { return Where({swap, site}, y, x); };
  const SortWords low = {choose(a.high, b.high), a.joined() ? Tensor() : choose(a.low, b.low),
                         a.position_bits};
  const SortWords high = {choose(b.high, a.high), a.joined() ? Tensor() : choose(b.low, a.low),
                          a.position_bits};
  a = low;
  b = high;
}

SortWords Flipped(const SortWords& w, const Dims& axes, Site site) {
  if (axes.empty()) return w;
  return Each(w, [&](const Tensor& t) { return t.Flip(axes, site); });
}

// Comparisons along `count` neighbouring bits, the highest of which is `top`. `mirrored`: a block
// of 2^(top + 1) begins: the first comparison is of elements that mirror each other in it.
SortWords Compared(const SortWords& words, const Layout& layout, int top, int count, bool mirrored,
                   Site site) {
  const NetworkView view = NetworkViewOf(layout, top - count + 1, count);
  const Dims whole = words.high.dims();
  // part[b]: the elements whose compared bits are b, the bit `top` being 1 << (count - 1).
  const int parts = 1 << count;
  // The bit of b that each of the view's axes has, from the outermost one on.
  std::array<int, 2> bit = {0, 0};
  if (count == 2) {
    const std::vector<int> order = layout.Order();
    const bool descends =
        std::find(order.begin(), order.end(), top) < std::find(order.begin(), order.end(), top - 1);
    bit = descends ? std::array<int, 2>{1, 0} : std::array<int, 2>{0, 1};
  }
  std::array<SortWords, 4> part;
  const SortWords shaped = Each(words, [&](const Tensor& t) { return t.Reshape(view.dims, site); });
  for (int b = 0; b < parts; ++b) {
    SortWords p = shaped;
    for (size_t i = view.bit_axes.size(); i-- > 0;) {
      const int64_t at = b >> bit[i] & 1;
      p = Each(p, [&](const Tensor& t) { return t.Select(view.bit_axes[i], at, site); });
    }
    // The upper half of a block that is mirrored is turned around, and back afterwards.
    const bool upper = mirrored && b >> (count - 1) != 0;
    part[static_cast<size_t>(b)] = upper ? Flipped(p, view.mirrored, site) : p;
  }
  auto exchange = [&](int a, int b) {
    Exchange(part[static_cast<size_t>(a)], part[static_cast<size_t>(b)], site);
  };
  const int half = parts / 2;
  for (int b = 0; b < half; ++b) exchange(b, mirrored ? parts - 1 - b : b + half);
  if (count == 2) {
    exchange(0, 1);
    exchange(2, 3);
  }
  // The parts in the order of their places.
  std::vector<SortWords> placed;
  for (int at = 0; at < parts; ++at) {
    int b = 0;
    for (int i = 0; i < count; ++i) b |= (at >> (count - 1 - i) & 1) << bit[static_cast<size_t>(i)];
    const SortWords& p = part[static_cast<size_t>(b)];
    placed.push_back(mirrored && b >> (count - 1) != 0 ? Flipped(p, view.mirrored, site) : p);
  }
  auto joined = [&](auto member) {
    std::vector<Tensor> all;
    for (const SortWords& p : placed) all.push_back(p.*member);
    return Stack(all, view.bit_axes[0], site).Reshape(whole, site).Contiguous(site);
  };
  return {joined(&SortWords::high), words.joined() ? Tensor() : joined(&SortWords::low),
          words.position_bits};
}

}  // namespace

Tensor SortWords::Positions(Dtype dtype, Site site) const {
  if (!joined()) return low.Cast(dtype, site);
  return (Operand(high, site) & ((int64_t{1} << position_bits) - 1)).Cast(dtype, site);
}

SortWords WordsOf(const Tensor& x, bool descending, int64_t length, Site site) {
  const int64_t n = x.dims()[0], rows = x.dims()[1];
  Keys keys = KeysOf(x, site);
  if (descending) keys.key = keys.key.Not(site);
  if (length > n) {
    const Tensor last = Integer(x, keys.key.dtype(), (ir::Int128{1} << (keys.bits - 1)) - 1);
    const Tensor inside = IotaLike(x, length, Dtype::I64).Unsqueeze(-1, site) < n;
    keys.key = Where({inside, site}, keys.key.Pad({0, 0}, {length - n, 0}, 0, site), last);
  }
  const int64_t position = std::max<int64_t>(1, std::bit_width(static_cast<uint64_t>(length - 1)));
  const int64_t all = keys.bits + position;
  if (all > 64) {
    const Tensor at = IotaLike(x, length, PositionDtype(length)).Unsqueeze(-1, site);
    return {keys.key.Contiguous(site), at.Expand({length, rows}, site).Contiguous(site), 0};
  }
  const Dtype word = all > 32 ? Dtype::I64 : Dtype::I32;
  const Tensor at = IotaLike(x, length, word).Unsqueeze(-1, site);
  const Tensor high = (Operand(keys.key.Cast(word, site), site) << position) | at;
  return {high.Contiguous(site), Tensor(), position};
}

SortWords Sorted(const SortWords& words, Site site) {
  const Dims dims = words.high.dims();
  Layout layout;
  layout.bits = std::countr_zero(static_cast<uint64_t>(dims[0]));
  layout.rows = dims[1];
  // No pair of bits that are compared together is divided: their number, and that of the lines, is
  // even.
  int inner = 0;
  while (inner < layout.bits && (layout.rows << inner) < kContiguous) ++inner;
  if (inner < layout.bits && (layout.bits - inner) % 2 != 0 && inner > 0) ++inner;
  layout.lines = layout.bits - inner;
  // The words may be in any order, so they lie in memory as they come.
  SortWords w = words;
  for (int block = 1; block <= layout.bits; ++block) {
    int top = block - 1;  // the bit that is compared next
    bool mirrored = true;
    while (top >= 0) {
      const bool divided = (top < layout.lines) != (top - 1 < layout.lines);
      // Two bits: an odd one and the even one below it, so that all blocks share their kernels.
      const int count = top % 2 == 1 && !divided ? 2 : 1;
      w = Compared(w, layout, top, count, mirrored, site);
      mirrored = false;
      top -= count;
    }
  }
  // Back to the order of positions.
  Dims split = {int64_t{1} << layout.lines}, order;
  for (int i = layout.bits - layout.lines; i > 0; --i) {
    split.push_back(2);
    order.push_back(i);
  }
  split.push_back(layout.rows);
  order.push_back(0);
  order.push_back(static_cast<int64_t>(split.size()) - 1);
  return Each(w, [&](const Tensor& t) {
    return t.Reshape(split, site).Permute(order, site).Reshape(dims, site);
  });
}

}  // namespace uopd::client
