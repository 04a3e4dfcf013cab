// SPDX-License-Identifier: MIT
// Numbers that uopd and its peers make for themselves and that are the same on both sides, so that
// results can be compared. tests/perf/peers/weights.py makes the same ones.
#pragma once
#include <vector>

#include "uopd/client.h"

namespace uopd::perf {

// `n` numbers in [low, high), from a hash of `seed` and of their positions.
std::vector<float> Numbers(int64_t n, uint32_t seed, float low, float high);

// The weights of one model: memory on the daemon, and what Fill writes to it. The k-th tensor that
// is asked for has seed k + 1: both sides ask in the same order.
class Weights {
 public:
  explicit Weights(client::Client& client) : client_(client) {}

  client::Tensor Make(client::Dims dims, float low, float high);
  // A matrix or a kernel whose results have about the variance of its inputs, of which each sum has
  // `fan`.
  client::Tensor Matrix(client::Dims dims, int64_t fan);
  client::Tensor Scale(int64_t n) { return Make({n}, 0.5F, 1.5F); }
  client::Tensor Shift(int64_t n) { return Make({n}, -0.1F, 0.1F); }
  // As Make, for a tensor that exists.
  void Add(const client::Tensor& tensor, float low, float high);
  void AddMatrix(const client::Tensor& tensor, int64_t fan);

  // Sends the values.
  absl::Status Fill() const;

 private:
  struct Entry {
    client::Tensor tensor;
    float low, high;
  };
  client::Client& client_;
  std::vector<Entry> entries_;
};

}  // namespace uopd::perf
