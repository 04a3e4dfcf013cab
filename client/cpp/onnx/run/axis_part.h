// SPDX-License-Identifier: MIT
// What the op Slice takes of one axis. Internal to the library.
#pragma once
#include <cstdint>

namespace uopd::client::onnx {

// `count` elements from `begin` on, `step` apart. Of an empty part, begin is 0 and step 1.
struct AxisPart {
  int64_t begin = 0, count = 0, step = 1;
};

// The part of an axis of `size` elements that Slice takes for these numbers. A negative start or
// end counts from the end of the axis; one beyond the axis means the end of it, as the format has
// it. REQUIRES: step is not 0.
AxisPart PartOfAxis(int64_t start, int64_t end, int64_t step, int64_t size);

}  // namespace uopd::client::onnx
