// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/broadcast.h"

#include <algorithm>

#include "client/cpp/onnx/reader.h"

namespace uopd::client::onnx {

std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  if (std::max(a.size(), b.size()) > static_cast<size_t>(ir::kMaxRank)) return std::nullopt;
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  if (ElementsOf(out).value_or(kMostFoldedElements + 1) > kMostFoldedElements) return std::nullopt;
  return out;
}

std::vector<int64_t> SpreadPlaces(const Dims& from, const Dims& to) {
  std::vector<int64_t> out;
  const int64_t n = ir::Product(to);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0, stride = 1, left = i;
    for (size_t k = 0; k < to.size(); ++k) {
      const int64_t size = to[to.size() - 1 - k], place = left % size;
      left /= size;
      if (k >= from.size()) continue;
      const int64_t own = from[from.size() - 1 - k];
      if (own != 1) at += place * stride;
      stride *= own;
    }
    out.push_back(at);
  }
  return out;
}

}  // namespace uopd::client::onnx
