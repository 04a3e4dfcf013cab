// SPDX-License-Identifier: MIT
// Elements by position, in time that does not grow with what they are picked from: the daemon makes
// a load of a sum over elements of which one counts, if it finds an equation for its position.
// Internal to the library.
#pragma once
#include "uopd/tensor.h"

namespace uopd::client {

// 0, 1, ... n - 1 along the first axis, with `behind` axes of size 1 behind it.
Tensor PlacesOf(const Tensor& like, int64_t n, Dtype dtype, int64_t behind);

// The elements of x that `hit` picks along the first axis; it broadcasts against x, and holds for
// at most one. Where it holds for none: 0. The bits are those of x, also of -0 and NaN. `back` is
// the same as hit, for the gradient: with an equation for the place of each element of x it takes
// no longer than the value does.
Tensor Picked(const Tensor& hit, const Tensor& back, const Tensor& x, Site site);

// x (n, rows) at the positions `index` (k, rows). `inverse` (n, rows): for each element of x its
// place in the index, or -1; empty: unknown, and the gradient takes time proportional to n times k.
Tensor AtPositions(const Tensor& x, const Tensor& index, const Tensor& inverse, Site site);

// For each of `values` the number of elements of `sorted` (n), an ascending vector, that are
// smaller (right: or equal). NaN is the largest. log2(n) steps.
Tensor CountBelow(const Tensor& sorted, const Tensor& values, bool right, Site site);

}  // namespace uopd::client
