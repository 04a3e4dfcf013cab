// SPDX-License-Identifier: MIT
// Libraries that kernels are compared with. `uopd-perf` has those that were installed when it was
// built (`deploy/install-deps --peers`).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace uopd::perf {

// One way to do some work: `run` does it once, on buffers of its own. A peer that is another
// process has `seconds` instead: it does the work once and says how long that took there, without
// the way to the process. A negative number is a failure.
struct PeerRun {
  std::string name;
  std::function<void()> run;
  std::function<double()> seconds = {};
};

// Row-major C (m, n) = A (m, k) B (k, n) for each of `batch`; a transposed operand is stored as its
// transpose. `dtype`: "f32", "bf16" or "i8"; C is f32, or i32 for i8.
struct MatMulShape {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool transpose_a = false, transpose_b = false;
  std::string dtype = "f32";
};

// A convolution of NCHW tensors that a library reads and writes in this order.
struct ConvShape {
  int64_t batch = 1, in = 1, out = 1, size = 1, kernel = 1, stride = 1, padding = 0, groups = 1;
  int64_t out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flops() const {
    return 2.0 * static_cast<double>(batch * out * out_size() * out_size() * kernel * kernel * in) /
           static_cast<double>(groups);
  }
};

// softmax(q k^T / sqrt(depth)) v of (heads, queries or keys, depth). Causal: query i sees the keys
// up to i + keys - queries.
struct AttentionWork {
  int64_t heads = 1, queries = 1, keys = 1, depth = 1;
  bool causal = false;
  double flops() const { return 4.0 * static_cast<double>(heads * queries * keys * depth); }
};

std::vector<PeerRun> MatMulPeers(const MatMulShape& shape, int threads);
std::vector<PeerRun> ConvPeers(const ConvShape& shape, int threads);
// Softmax or layer norm of (rows, columns), over the columns.
std::vector<PeerRun> SoftmaxPeers(int64_t rows, int64_t columns, int threads);
std::vector<PeerRun> LayerNormPeers(int64_t rows, int64_t columns, int threads);
// Three primitives of oneDNN: scores, softmax, product.
std::vector<PeerRun> AttentionPeers(const AttentionWork& work, int threads);

}  // namespace uopd::perf
