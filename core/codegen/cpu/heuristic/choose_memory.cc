// SPDX-License-Identifier: MIT
// Steps 6 to 9 of the heuristic (heuristic_steps.h): packed operands, blocks, stores around the
// caches and prefetches.
//
// Invariant: blocks bring PACKs of their own, so a kernel with blocks gets no further ones.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/block_opts.h"
#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/operand_prefetch.h"
#include "core/codegen/passes/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr double kLeastWordReuse = 2;  // tiles that read packed words of a matrix instruction
constexpr double kManyRows = 600;      // more than these want entries of the page table at once

}  // namespace

void Heuristic::ChoosePacks() {
  if (!CanPack() || reduces_ == 0) return;
  const std::vector<ir::UOp> loads = codegen::Loads(ctx_, sink_);
  for (size_t n = 0; n < loads.size(); ++n) {
    double reused = 1, rows = 1;
    bool gathers = false, vector = false;
    const auto access = std::find_if(accesses_.begin(), accesses_.end(),
                                     [&](const Access& x) { return x.node == loads[n]; });
    for (size_t a = 0; a < axes_.size(); ++a) {
      const auto stride = access->strides[a];
      if (IsStoredAlong(a)) {
        if (stride == 0 && !IsReduce(a) && IsRepeated(*access, a))
          reused *= static_cast<double>(left_[a]);
        vector |= stride != 0 && lanes_[a] > 1;
        gathers |=
            lanes_[a] > 1 && stride != 0 && (!stride || *stride < 1 || *stride > kSmallStride);
      } else if (plan_.maybe_instruction() != nullptr && !stride &&
                 ir::Bits(loads[n].dtype()) == 32) {
        continue;  // neighbours share words: the steps between words are short
      } else if (!stride || std::abs(*stride) * widest_ >= kRowBytes) {
        rows *= static_cast<double>(sizes_[a]);
      }
    }
    // Words that lie in memory as such need no copy.
    const bool in_words = plan_.maybe_instruction() != nullptr && reused >= kLeastWordReuse &&
                          ir::Bits(loads[n].dtype()) < 32;
    if (!vector || (reused < kLeastReuse && !in_words)) continue;
    if (in_words || gathers || rows > kManyRows)
      (void)Try({OptKind::kPack, static_cast<int>(n), 0});
  }
}

bool Heuristic::ChooseBlocks() {
  if (!CanPack() || plan_.maybe_instruction() != nullptr) return false;
  const std::vector<MemoryAxis> axes = MemoryAxes();
  std::vector<Opt> opts = BlockOpts(ctx_, sink_, target_, axes);
  if (opts.empty()) opts = LongSumOpts(ctx_, sink_, target_, axes);
  const std::vector<Opt> before = plan_.opts();
  for (const Opt& opt : opts) {
    if (Try(opt)) continue;
    plan_.Clear();
    for (const Opt& o : before) UOPD_CHECK(Try(o));
    return false;
  }
  return !opts.empty();
}

void Heuristic::ChooseMemoryOpts() {
  if (target_.warp_lanes > 1) return;
  for (const Opt& opt : MemoryOpts(ctx_, sink_, target_, MemoryAxes())) (void)Try(opt);
  // While a thread computes the running sums of one block, memory sends its next one.
  for (size_t n = 0; scan_blocks_ && n < Reads(ctx_, sink_).size(); ++n)
    (void)Try({OptKind::kPrefetch, static_cast<int>(n), 0});
  // Sums of f32 take longer than the operands take to arrive: there, prefetching them gains nothing.
  if (plan_.maybe_instruction() == nullptr) return;
  const std::vector<Opt> chosen = plan_.opts();
  for (const Opt& opt : OperandPrefetches(ctx_, sink_, target_, MemoryAxes(), chosen))
    (void)Try(opt);
}

}  // namespace uopd::codegen
