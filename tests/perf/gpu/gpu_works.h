// SPDX-License-Identifier: MIT
// The operations that are measured on a GPU, with their sizes. Plain data.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/perf/program.h"
#include "uopd/client.h"

namespace uopd::perf {

struct GpuWork {
  std::string name;    // "matmul.f32.4096"
  std::string family;  // "matmul.f32": works of one family take about as long for an operation
  double amount = 0;   // of 1e9 `unit`, in one run
  std::string unit;
  std::function<client::Tensor(client::Client&)> build;
  // For products: the number of rows, and the dtype of the peer's product.
  int64_t product = 0;
  ir::Dtype dtype = ir::Dtype::F32;
  ProgramOptions options;
};

// From small to large in every family. `scale` below 1 makes them smaller, for slow devices.
std::vector<GpuWork> GpuWorks(double scale);

// `n` rows for this scale: a multiple of 64, and at least 128.
int64_t ScaledRows(int64_t n, double scale);

}  // namespace uopd::perf
