// SPDX-License-Identifier: MIT
// Two products of matrices that one kernel would compute, on devices that run blocks of threads.
//
// Such a device multiplies matrices by tiles, one for each block, that lie in shared memory. A
// kernel has one tiling. So a kernel that adds up two products, such as the end of a block of
// ResNet with its shortcut, or the gate of a transformer, would compute both one element at a time,
// which takes several times as long. So all products but one are written to memory, with as much as
// is computed from them alone: the kernel that is left then equals that of a block without such a
// shortcut.
//
// A sum of what is computed from the results of a product, such as the mean of an image's pixels,
// would be in the way of the tiles too: what it adds up is written.
//
// What a kernel computes for each channel or column of a product, such as the scale of a
// normalisation, is neither written nor staged: an array that the block fills first would take the
// place of the tiles. Each thread computes it for its results, which costs less than their sums.
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

  // Whether u must be realised for one of these reasons: it is computed from one product, which has
  // tiles, and a kernel that needs it computes another product too, or a sum adds it up. Neither
  // product is computed from the other. REQUIRES: u has all its demands; the nodes that are
  // computed from u were asked about before.
  bool MustWrite(ir::UOp u);
  // Whether u is computed where it is needed, however often: it has few elements, all kernels that
  // need it compute a product that has tiles and is not computed from u, and one element of u costs
  // no more than one of the product.
  bool IsBesideTiles(ir::UOp u);

 private:
  // The terms of a sum of the product at this position, if it has tiles, else 0.
  int64_t TiledTerms(uint32_t position);
  // Notes what the REDUCE u adds up, if that is computed from the results of a product one by one.
  // A row that needs another reduction first, such as a softmax, has loops of its own kind.
  void NoteSum(ir::UOp u);
  // Whether a kernel that demands u computes another product than that at position `mine`.
  bool SharesKernel(const NodeInfo& info, uint32_t mine) const;

  ir::UOpContext& ctx_;
  Accesses& accesses_;
  const FusionOptions& options_;
  const Fusion& f_;
  absl::flat_hash_set<uint32_t> written_;  // positions of products for which the answer was yes
  absl::flat_hash_set<uint32_t> summed_;   // positions of what NoteSum has noted
  absl::flat_hash_map<uint32_t, int64_t> terms_;  // see TiledTerms
};

}  // namespace uopd::schedule
