// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/axis_part.h"

#include <algorithm>

namespace uopd::client::onnx {

AxisPart PartOfAxis(int64_t start, int64_t end, int64_t step, int64_t size) {
  // Largest steps and ends mean as much as those just beyond the axis do.
  step = std::clamp<int64_t>(step, -size - 1, size + 1);
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](int64_t v) {
    v = std::clamp<int64_t>(v, -2 * size - 2, size + 1);
    return std::clamp(v < 0 ? v + size : v, low, high);
  };
  const int64_t begin = place(start), distance = place(end) - begin;
  if (step > 0 ? distance <= 0 : distance >= 0) return {};
  const int64_t rest = step > 0 ? step - 1 : step + 1;
  return {.begin = begin, .count = (distance + rest) / step, .step = step};
}

}  // namespace uopd::client::onnx
