// SPDX-License-Identifier: MIT
// Long sums of floats in chunks: every chunk has a sum of its own, and these sums are added up.
//
//   sum = 0
//   for each chunk b
//     part = 0
//     for each iteration of the chunk: part = part + term
//     sum = sum + part
//
// A sum in one accumulator rounds every term to the precision of all terms before it. So its error
// grows with the number of terms; that of a sum in chunks grows with the number of terms of a chunk
// and with the number of chunks. A product of matrices needs its registers for the tile, and a
// second accumulator costs it a tenth of its time: sums of products have chunks only from 16384
// terms on. All other sums wait for memory. Chunks do not depend on the opts: cutting a loop
// changes no access, no tile, and no copy (PACK).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// How the loops of a sum are cut. A chunk contains the loops from number `inside` on, and `steps`
// iterations of the loop before them. If `steps` is 0, that loop is not cut, and each iteration of
// that loop is a chunk.
struct SumChunks {
  size_t inside = 0;
  int64_t steps = 0;
  bool operator==(const SumChunks&) const = default;
};

// `loops`: the sizes of the loops of a sum, outermost first; -1: symbolic. `terms`: what one
// iteration adds to an accumulator. `of_products`: whether the terms are products of two elements
// that are read, and the sum is not known to be long if a size is symbolic. Nullopt: the sum is
// short, and has no chunks.
std::optional<SumChunks> ChunksOfSum(std::span<const int64_t> loops, int64_t terms,
                                     bool of_products);

// The sums of floats that ChunkLongSums cuts, by their ids: those that are long and share no loop
// with anything else but sums that are cut alike. None of a kernel with running sums. On devices
// with blocks of threads none of products: a thread has no registers for a second accumulator of
// each of its sums.
absl::flat_hash_map<uint32_t, SumChunks> LongSums(ir::UOpContext& ctx, ir::UOp sink,
                                                  const Target& target);

// The terms of a chunk, in words: sums over the same terms in the same order add up alike if this
// is equal too.
std::string Text(ir::UOp sum, const SumChunks& chunks);

// sink with its long sums in chunks. REQUIRES: sums of floats below 32 bits are f32
// (WidenSmallFloats); no sum has matrix instructions.
ir::UOp ChunkLongSums(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
