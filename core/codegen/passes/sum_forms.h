// SPDX-License-Identifier: MIT
// The order in which the sums of a kernel add up, so that two forms of one kernel can be compared.
//
// Elementwise operations give the same bits in every kernel. A reduction of floats does not: opts
// decide the order of its terms (docs/codegen/numbers.md). The *form* of a reduction says which:
// its loops in the order in which they run, its unrolled and vectorised ranges, whether unrolled
// terms join one accumulator in turn or have accumulators of their own (passes/unroll.cc), and its
// chunks (sum_chunks.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/target/target.h"
#include "core/codegen/passes/sum_chunks.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// The reductions and scans of floats in a kernel, sources first. Not those that choose a maximum,
// which is the same in any order.
std::vector<ir::UOp> FloatSums(const ir::UOpContext& ctx, ir::UOp sink);

// The sizes of the axes of a sum of a kernel without opts, outermost first. Empty: one of several
// has no constant size.
std::vector<int64_t> AxesOfSum(ir::UOp sum);

class SumForms {
 public:
  // `sink`: of ApplyOpts. Everything outlives this object.
  SumForms(ir::UOpContext& ctx, ir::UOp sink, const Target& target);
  const std::vector<ir::UOp>& sums() const { return sums_; }
  // The form of one of the sums. `axes`: AxesOfSum before the opts. A sum that adds its terms one
  // after the other in the order of these axes is "in turn", whatever of it is unrolled: so it is
  // with one axis in place of several.
  std::string Of(ir::UOp sum, std::span<const int64_t> axes) const;

 private:
  std::string WithoutChunks(ir::UOp sum, std::span<const int64_t> axes) const;
  void CountCopies(const ir::UOpContext& ctx, ir::UOp sink);

  const Target& target_;
  std::vector<ir::UOp> sums_;
  absl::flat_hash_map<uint32_t, SumChunks> chunks_;  // by id of a sum that is cut into chunks
  absl::flat_hash_map<uint32_t, int64_t> copies_;    // by id of a sum: by unrolled ranges around it
};

}  // namespace uopd::codegen
