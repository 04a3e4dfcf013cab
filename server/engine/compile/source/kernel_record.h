// SPDX-License-Identifier: MIT
// A compiled kernel as plain data: the value in the cache, with everything that is needed to load
// and launch the kernel.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/codegen/kernel_info.h"

namespace uopd::engine {

// Version of the encoding; part of the environment key.
inline constexpr int kKernelRecordVersion = 6;

struct KernelRecord : codegen::KernelInfo {  // the name is the entry point
  std::string object;                        // what the device's compiler returned

  std::string Encode() const;
  // DATA_LOSS when the bytes are not a whole record. FAILED_PRECONDITION when they have an opt of a
  // later version.
  static absl::StatusOr<KernelRecord> Decode(std::string_view bytes);
};

// A kernel before the device's compiler has made its object.
struct KernelSource {
  KernelRecord record;  // everything but the object
  std::string text;
  // Of all of it. Sources with equal digests become equal kernels, where the compilers are equal
  // (code_key.h).
  Digest digest() const;
};

}  // namespace uopd::engine
