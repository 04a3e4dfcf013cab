// SPDX-License-Identifier: MIT
// Two products of matrices that one kernel would compute, on devices that run blocks of threads.
//
// Such a device multiplies matrices by tiles, one for each block, that lie in shared memory. A kernel has one tiling. So
// a kernel that adds up two products, such as the end of a block of ResNet with its shortcut, or the gate of a
// transformer, would compute both one element at a time, which takes several times as long. So all products but one are
// written to memory, with as much as is computed from them alone: the kernel that is left then equals that of a block
// without such a shortcut.
#pragma once
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// One object for one attempt of fusion. Not thread-safe.
class TiledProducts {
 public:
  // All arguments outlive the object.
  TiledProducts(ir::UOpContext& ctx, Accesses& accesses, const FusionOptions& options,
                const Fusion& f)
      : ctx_(ctx), accesses_(accesses), options_(options), f_(f) {}

  // Whether u must be realised for this reason: it is computed from one product, which has tiles, and a kernel that
  // needs it computes another product too. Neither product is computed from the other. REQUIRES: u has all its demands;
  // the nodes that are computed from u were asked about before.
  bool MustWrite(ir::UOp u);

 private:
  // Whether a kernel that demands u computes another product than that at position `mine`.
  bool SharesKernel(const NodeInfo& info, uint32_t mine) const;

  ir::UOpContext& ctx_;
  Accesses& accesses_;
  const FusionOptions& options_;
  const Fusion& f_;
  absl::flat_hash_set<uint32_t> written_;  // positions of products for which the answer was yes
};

}  // namespace uopd::schedule
