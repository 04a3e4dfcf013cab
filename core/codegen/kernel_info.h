// SPDX-License-Identifier: MIT
// KernelInfo: what is known of a kernel besides its code, from codegen to the launch and in caches.
//
// A new fact is a field here, its part of Encode and Decode, and the place that finds it out. Plain
// values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/codegen/launch_size.h"
#include "core/codegen/opts/opt.h"
#include "core/ir/dtype.h"

namespace uopd::codegen {

struct BufferUse {
  ir::Dtype dtype = ir::Dtype::Void;
  int64_t elements = 0;  // size of the buffer with every variable at its maximum
  bool read = false, written = false;
};

struct KernelInfo {
  std::string name;  // a C identifier, from the kernel's shape: the same graph has the same name
  std::vector<BufferUse> buffers;      // by PARAM slot
  std::vector<std::string> variables;  // order of the `vars` array at launch
  LaunchGeometry launch;
  std::vector<Opt> opts;  // that were applied
  // Estimates for one launch with every variable at its maximum. `estimate_ns` assumes a slow core
  // (passes/polls.h): it tells long kernels from short ones.
  double flops = 0, bytes = 0, estimate_ns = 0;
  DtypeNumber dtype = DtypeNumber::Void;  // of most operations (estimate.h)
  bool polls = false;                     // the kernel checks its stop word while it runs

  // Everything but the name. DATA_LOSS: the bytes are no such facts. FAILED_PRECONDITION: they are,
  // and an opt is of a later version.
  void Encode(std::string& out) const;
  static absl::Status Decode(ByteReader& in, KernelInfo& out);
};

}  // namespace uopd::codegen
