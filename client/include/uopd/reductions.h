// SPDX-License-Identifier: MIT
// Reductions beyond those of Tensor, and running ones. Axes, `keep`, errors and promotion are as in
// tensor.h.
#pragma once
#include <utility>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// Bools. Elements other than 0 are true, NaN included. Of no elements: Any is false, All is true.
Tensor Any(const Tensor& x, const Dims& axes = {}, bool keep = false, Site site = Site::current());
Tensor All(const Tensor& x, const Dims& axes = {}, bool keep = false, Site site = Site::current());
// The number of elements other than 0, as i32.
Tensor CountNonzero(const Tensor& x, const Dims& axes = {}, bool keep = false,
                    Site site = Site::current());
// log of the sum of exp(x), without overflow.
Tensor LogSumExp(const Tensor& x, const Dims& axes = {}, bool keep = false,
                 Site site = Site::current());

// Running products: for each element the product of all elements up to it. The dtype is that of
// Prod.
Tensor CumProd(const Tensor& x, int64_t axis = -1, Site site = Site::current());
// The largest (smallest) element up to each one, and its position (i32; i64 beyond 2^31 elements);
// of equal ones the first position. NaN is larger (smaller) than all others. The gradient goes to
// that position, and computing it takes quadratic time.
std::pair<Tensor, Tensor> CumMax(const Tensor& x, int64_t axis = -1, Site site = Site::current());
std::pair<Tensor, Tensor> CumMin(const Tensor& x, int64_t axis = -1, Site site = Site::current());
// For each element LogSumExp of all elements up to it, in quadratic time.
Tensor LogCumSumExp(const Tensor& x, int64_t axis = -1, Site site = Site::current());

// The element below which a share q of all elements of an axis lies, 0 <= q <= 1; between two
// elements in proportion. NaN if there is a NaN. The gradient goes to these elements.
Tensor Quantile(const Tensor& x, double q, int64_t axis = -1, bool keep = false,
                Site site = Site::current());
inline Tensor Median(const Tensor& x, int64_t axis = -1, bool keep = false,
                     Site site = Site::current()) {
  return Quantile(x, 0.5, axis, keep, site);
}
// How often each of the numbers 0 to size - 1 occurs, as i32; or the sum of the weights of its
// places. Other numbers do not count. Takes time proportional to `size` times the size of x.
Tensor BinCount(const Tensor& x, int64_t size, const Tensor& weights = {},
                Site site = Site::current());
// For each value the number of elements of the sorted vector that are smaller (right: or equal), as
// i32: where it has to be inserted. NaN is larger than all others.
Tensor SearchSorted(const Tensor& sorted, const Tensor& values, bool right = false,
                    Site site = Site::current());

}  // namespace uopd::client::fn
