// SPDX-License-Identifier: MIT
// ThreadBits: which bits of a thread's number each LOCAL range of a kernel takes.
//
// Invariants
//   (1) The size of a LOCAL range is a power of two (OptPlan), so the range takes whole bits.
//   (2) Two ranges that one value depends on have no bit in common. Ranges of different parts of a
//       kernel may share bits: a thread has one role in a reduction and another one in the loop
//       that follows.
//   (3) An array that the block shares (IsSharedStage) has elements for all values of the LOCAL
//       ranges around it: what is read from it depends on those of its index only. A stage that is
//       dealt out reads arrays for other values of these ranges than those of the thread, so its
//       own value depends on none of them, and one thread stores it.
//   (4) The range along which accesses to memory need the fewest transactions gets the lowest bits.
#pragma once
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// The tags of LOCAL ranges that number the lanes of a warp: they get the lowest bits. Where two
// ranges do so, the one of the upper bits has the second tag; every value that depends on one of
// them depends on both.
inline constexpr int64_t kWarpRange = 1, kUpperWarpRange = 2;

inline bool IsLocalRange(ir::UOp u) {
  return u.Is(ir::Op::RANGE) && u.axis_type() == ir::AxisType::LOCAL;
}

class ThreadBits {
 public:
  struct Field {
    int first = 0, count = 0;
    int64_t mask() const { return ((int64_t{1} << count) - 1) << first; }
  };

  // REQUIRES: a kernel after OptPlan::Apply.
  ThreadBits(ir::UOpContext& ctx, ir::UOp sink);

  int64_t threads() const { return int64_t{1} << bits_; }  // of a block
  bool Has(ir::UOp range) const { return fields_.contains(range.id()); }
  Field Of(ir::UOp range) const { return fields_.at(range.id()); }
  // The LOCAL ranges that u depends on, in the order of their axis ids.
  const std::vector<ir::UOp>& Along(ir::UOp u) const { return along_.at(u.id()); }

 private:
  int bits_ = 0;
  absl::flat_hash_map<uint32_t, Field> fields_;
  absl::flat_hash_map<uint32_t, std::vector<ir::UOp>> along_;
};

}  // namespace uopd::codegen
