// SPDX-License-Identifier: MIT
#include "tests/perf/models/weights.h"

#include <cmath>

#include "core/ir/shape.h"

namespace uopd::perf {

std::vector<float> Numbers(int64_t n, uint32_t seed, float low, float high) {
  std::vector<float> out(static_cast<size_t>(n));
  const float width = high - low;
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761U + seed * 40503U;
    x = (x ^ (x >> 15)) * 739982445U;
    x = (x ^ (x >> 12)) * 695872825U;
    x ^= x >> 15;
    const float fraction = static_cast<float>(x >> 8) * 0x1p-24F;
    out[i] = low + fraction * width;
  }
  return out;
}

client::Tensor Weights::Make(client::Dims dims, float low, float high) {
  Add(client_.Empty(std::move(dims)), low, high);
  return entries_.back().tensor;
}

client::Tensor Weights::Matrix(client::Dims dims, int64_t fan) {
  AddMatrix(client_.Empty(std::move(dims)), fan);
  return entries_.back().tensor;
}

void Weights::Add(const client::Tensor& tensor, float low, float high) {
  entries_.push_back({tensor, low, high});
}

void Weights::AddMatrix(const client::Tensor& tensor, int64_t fan) {
  const float bound = std::sqrt(3.0F / static_cast<float>(fan));
  Add(tensor, -bound, bound);
}

absl::Status Weights::Fill() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto& [tensor, low, high] = entries_[i];
    client::Tensor t = tensor;
    t.Assign(
        client_.FromHost(Numbers(t.size(), static_cast<uint32_t>(i + 1), low, high), t.dims()));
    UOPD_TRY(t.Realize());
  }
  return absl::OkStatus();
}

}  // namespace uopd::perf
