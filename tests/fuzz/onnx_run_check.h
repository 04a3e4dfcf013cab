// SPDX-License-Identifier: MIT
// What must be true of every run of an ONNX model of a stranger, before a daemon is asked.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace uopd::test {

struct OnnxRunVerdict {
  absl::Status status;  // how opening and running ended; FAILED_PRECONDITION: a daemon was needed
  std::string wrong;    // what the reader or the runner did wrong; empty: nothing
  double seconds = 0;   // of processor time
  double peak = 0;      // bytes of memory; 0 where the meter does not count (memory_meter.h)
};

// Opens and runs a model without inputs, with a client that has no daemon.
OnnxRunVerdict CheckOnnxRun(std::string_view file);

}  // namespace uopd::test
