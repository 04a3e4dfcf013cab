// SPDX-License-Identifier: MIT
// What the renderers of kernels for blocks (docs/ir_linear.md, "Blocks") know of a kernel before
// its first line.
#pragma once
#include <set>
#include <vector>

#include "core/ir/role.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"
#include "core/render/alignment.h"
#include "core/render/lines.h"

namespace uopd::render {

// Plain data. The handles live as long as their context.
struct BlockKernel {
  // `buffers`: the number of slots, at least those that the lines name.
  static BlockKernel Of(ir::UOp linear, size_t buffers);

  // Whether nothing in the kernel stores to the buffer of a PARAM.
  bool IsOnlyRead(ir::UOp base) const {
    return base.Is(ir::Op::PARAM) && !stored.contains(base.slot());
  }

  // Whether roles change the number of their registers: a block has all registers of a processor.
  bool SetsRegisters() const { return !roles.empty() && roles[0].registers > 0; }
  // The role of a ROLE, and whether it is the last one, whose threads are all that are left.
  const ir::WarpRole& RoleOf(ir::UOp role) const;
  bool IsLast(const ir::WarpRole& role) const { return &role == &roles.back(); }

  // The number of the map of a BULK_COPY: its parameter follows the stop word, in this order.
  size_t MapNumber(ir::UOp copy) const;

  std::vector<TensorMap> maps;  // of the BULK_COPYs
  std::vector<ir::UOp> slots;   // the PARAM of each slot; null if the kernel does not use it
  std::set<int64_t> stored;     // the slots of PARAMs that are stored to
  int64_t threads = 0;          // of a block; 0: not known
  bool together = false;        // the threads of a block wait for each other, or exchange values
  bool has_groups = false;      // it has GROUP_MMAs
  std::vector<ir::WarpRole> roles;                          // in the order of their lines
  int64_t shared_alignment = ir::SharedLayout::kAlignment;  // of all shared arrays, in bytes
};

// The lanes that one access of an INDEX takes, in up to so many bytes: 1, or more where the address
// is aligned.
int64_t WideLanes(ir::UOp index, int64_t most_bytes, Alignment& alignment);

}  // namespace uopd::render
