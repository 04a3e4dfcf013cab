// SPDX-License-Identifier: MIT
// A compiled kernel as plain data: what the cache keeps, and all that is needed to load and launch
// it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::engine {

// Version of the encoding; part of the environment key.
inline constexpr int kKernelRecordVersion = 3;

struct KernelRecord {
  std::string name;                         // entry point
  std::string object;                       // what the device's compiler returned
  std::vector<codegen::BufferUse> buffers;  // by PARAM slot
  std::vector<std::string> variables;       // order at launch
  codegen::LaunchGeometry launch;
  double flops = 0, bytes = 0, estimate_ns = 0;  // as codegen::LoweredKernel has them
  bool polls = false;

  std::string Encode() const;
  // DATA_LOSS when the bytes are not a whole record.
  static absl::StatusOr<KernelRecord> Decode(std::string_view bytes);
};

}  // namespace uopd::engine
