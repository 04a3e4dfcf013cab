// SPDX-License-Identifier: MIT
// What is known about the address of an access: a power of two that divides its index. Renderers
// use it to find accesses that a wide instruction may do.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::render {

// Remembers what it found. Not thread-safe.
class Alignment {
 public:
  // The largest power of two, at most 2^30, that is known to divide an integer of a linear kernel.
  int64_t Of(ir::UOp u) { return int64_t{1} << ZerosOf(u); }

 private:
  int ZerosOf(ir::UOp u);                     // the number of low bits that are known to be 0
  absl::flat_hash_map<uint32_t, int> zeros_;  // by node id
};

}  // namespace uopd::render
