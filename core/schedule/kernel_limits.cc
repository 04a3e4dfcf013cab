// SPDX-License-Identifier: MIT
// The limits of devices (schedule.h): from a Target, and of the device of a node.
#include <algorithm>

#include "core/schedule/schedule.h"

namespace uopd::schedule {

namespace {
// Their products are exact in f32.
constexpr DtypeNumberSet kProductDtypes = {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32};
}  // namespace

KernelLimits KernelLimits::Of(const Target& target) {
  KernelLimits limits;
  limits.threads = std::max(target.threads, 1);
  // A device may lower the scheduler's limit, but not raise it: larger kernels are no better.
  if (target.max_buffers > 0) limits.max_buffers = std::min(limits.max_buffers, target.max_buffers);
  limits.cache_bytes = target.OwnCacheBytes();
  // Of the speeds only those that decide schedules, so that others are no part of keys.
  if (!target.blocks) limits.speeds.thread_ns = target.speeds.thread_ns;
  if (target.blocks) {
    limits.units = std::max(target.units, 1);
    limits.speeds = Speeds::OfGpu();
    limits.speeds.products = target.speeds.products;
    limits.speeds.warp_products = target.speeds.warp_products;
    limits.speeds.memory_bytes = target.speeds.memory_bytes;
    limits.speeds.launch_cycles = target.speeds.launch_cycles;
    // A block shares the arrays of all stages of its kernel, and what its opts copy.
    limits.stage_bytes = std::min(limits.stage_bytes, target.shared_bytes / 4);
    limits.warp_products = target.shuffles && std::ranges::any_of(target.matrix_instructions,
                                                                  &MatrixInstruction::of_warp);
  }
  for (const MatrixInstruction& i : target.matrix_instructions) {
    // A byte of either sign can be a factor of an instruction for the other (codegen's TC).
    const bool bytes = i.a == DtypeNumber::U8 || i.a == DtypeNumber::I8;
    limits.factors.Add(i.a);
    limits.factors.Add(i.b);
    if (bytes) limits.factors.Add(i.a == DtypeNumber::U8 ? DtypeNumber::I8 : DtypeNumber::U8);
    const bool known = std::ranges::find(limits.product_dtypes, i.a) != limits.product_dtypes.end();
    if (i.a != i.b || i.sum != DtypeNumber::F32 || known) continue;
    if (kProductDtypes.Has(i.a)) limits.product_dtypes.push_back(i.a);
  }
  return limits;
}

const KernelLimits& Options::LimitsFor(ir::UOp u) const {
  using ir::Op;
  constexpr ir::OpSet kPlaced = {Op::PARAM, Op::COPY};
  if (limits_of.empty()) return limits;
  while (!u.Is(kPlaced) && u.n_src() > 0) u = u.src(0);
  const bool named = u.Is(kPlaced) && !u.text().empty();
  return LimitsOf(named ? u.text() : std::string_view(default_device));
}

}  // namespace uopd::schedule
