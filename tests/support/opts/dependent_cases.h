// SPDX-License-Identifier: MIT
// Random kernels of several reductions of different lengths that use each other's results, as in a
// softmax whose product with a matrix is searched for its maximum: nested, one after the other, and
// with rows that are staged. The numbers are whole, so results are exact.
#pragma once
#include "tests/support/opts/opts_cases.h"

namespace uopd::tests {

// The kernels of the seeds from `first` on.
std::vector<KernelCase> DependentCases(uint64_t first, int64_t count);

}  // namespace uopd::tests
