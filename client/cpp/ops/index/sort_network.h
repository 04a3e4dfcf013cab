// SPDX-License-Identifier: MIT
// Sorting as arithmetic on integers. Internal to the library.
//
// Elements become words: integers whose order is that of the elements, and of equal elements that
// of their positions. No two words of a row are equal, so what sorts them need not be stable. Words
// are in memory before they are compared: an element that a kernel computed in two ways could come
// before itself.
#pragma once
#include <optional>

#include "uopd/tensor.h"

namespace uopd::client {

// The words of rows along the first axis, as the integers `high`, then `low` where the highs are
// equal. A word of an element of up to 32 bits is one integer: the position is in its low bits, and
// `low` is empty.
struct SortWords {
  Tensor high, low;
  int64_t position_bits = 0;  // of high; 0: low is the position

  bool joined() const { return low.state() == nullptr; }
  // The words as positions of `dtype`.
  Tensor Positions(Dtype dtype, Site site) const;
};

// The words of x (n, rows), from the smallest element on; `descending`: from the largest one on.
// NaN is the largest; -0 and 0 are equal. Behind them follow words that are larger than all of
// these, up to `length` in a row. REQUIRES: n <= length.
SortWords WordsOf(const Tensor& x, bool descending, int64_t length, Site site);

// The words (length, rows) in ascending order. REQUIRES: length is a power of two. About
// log2(length)^2 / 4 kernels.
SortWords Sorted(const SortWords& words, Site site);

}  // namespace uopd::client
