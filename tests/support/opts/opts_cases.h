// SPDX-License-Identifier: MIT
// Kernels that random opts are tried on: products, convolutions, reductions, scans and more, of
// small and odd sizes.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "tests/support/kernel_check.h"

namespace uopd::tests {

struct KernelCase {
  std::string name;
  std::function<ir::UOp(ir::UOpContext&)> make;
  std::vector<std::pair<ir::Dtype, int64_t>> buffers;
  double tolerance = 2e-6;  // as CheckOptions
  bool tame = true;         // the buffers hold numbers, and no large ones
  std::map<std::string, int64_t> variables = {};
  bool fast_math = false;                // some trials: neither NaN nor infinity may come up
  std::vector<codegen::Opt> begin = {};  // of all lists of random opts
};

inline ir::UOp Sum(ir::UOpContext& c, ir::UOp x, std::initializer_list<ir::UOp> ranges,
                   ir::Op op = ir::Op::ADD) {
  return ir::ReduceRanges(c, op, x, std::span<const ir::UOp>(ranges.begin(), ranges.size()));
}

std::vector<KernelCase> OptsCases();

}  // namespace uopd::tests
