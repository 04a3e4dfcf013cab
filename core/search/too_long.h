// SPDX-License-Identifier: MIT
// TooLong: which lists of opts need not be made, because a shorter kernel was too long already.
//
// The length of a kernel grows with the amounts of UPCAST and UNROLL. So a list that has all opts
// of one that was too long, with amounts as large or larger, is taken to be too long as well. Some
// kinds of opts (VECTOR, TC ...) change how much one line computes, and can make a kernel shorter:
// those must be equal in both lists.
#pragma once
#include <vector>

#include "core/search/moves.h"

namespace uopd::search {

// Not thread-safe.
class TooLong {
 public:
  explicit TooLong(std::vector<AxisInfo> axes) : axes_(std::move(axes)) {}

  // The kernel of `opts` was too long.
  void Add(const Opts& opts);
  // Whether a list that was added says that the kernel of `opts` is too long.
  bool Covers(const Opts& opts) const;

 private:
  // What of a list decides how long its kernel is.
  struct Length {
    Opts same;  // kinds that change how much a line computes: equal in both lists
    // UPCAST, UNROLL and PACK: the longer list has each of them too, with an amount as large or
    // larger.
    Opts grows;
  };
  Length LengthOf(const Opts& opts) const;
  static bool Covers(const Length& shorter, const Length& longer);

  const std::vector<AxisInfo> axes_;
  std::vector<Length> known_;  // none covers another
};

}  // namespace uopd::search
