// SPDX-License-Identifier: MIT
#include "core/codegen/passes/polls.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/codegen/machine.h"
#include "core/codegen/passes/lane_counter.h"
#include "core/ir/exp2.h"
#include "core/ir/graph.h"
#include "core/ir/group_mma.h"
#include "core/ir/mma.h"
#include "core/ir/verify/spec.h"
#include "core/ir/wmma_block.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// Costs in nanoseconds on a slow core: a simple instruction; an access to memory that may miss the
// first-level cache; a division or square root; a call of the math library.
constexpr double kInstruction = 1, kAccess = 4, kDivision = 20, kCall = 100;
constexpr double kScaledExp2 = 10;  // instructions
// A warp has a quarter of the matrix units of a processor. A warpgroup has all, and reaches about
// half of their rate beside the copies that it waits for.
constexpr double kShareOfWarp = 1.0 / 4, kShareOfWarpgroup = 1.0 / 2;
constexpr double kTileSums = 16;  // of a WMMA_BLOCK that a matrix instruction adds to in a cycle

// Estimated time of one line, without the loops around it.
double LineNs(UOp u, int64_t lanes, const Target& target) {
  if (u.Is(Op::WMMA_BLOCK)) {
    const ir::WmmaBlock block = ir::WmmaBlock::Of(u);
    return kInstruction * static_cast<double>(block.rows * block.columns * block.words) / kTileSums;
  }
  if (u.Is(Op::MMA)) {
    const ir::Mma mma = ir::Mma::Of(u);
    return kInstruction * static_cast<double>(mma.m * mma.n * mma.k) /
           (kShareOfWarp * target.speeds.warp_products);
  }
  if (u.Is(Op::GROUP_MMA)) {
    const ir::GroupMma mma = ir::GroupMma::Of(u);
    return kInstruction * static_cast<double>(mma.m * mma.n * mma.k) /
           (kShareOfWarpgroup * target.speeds.warpgroup_products);
  }
  if (u.Is(Op::MATRIX_LOAD)) return kInstruction * static_cast<double>(lanes);
  if (!u.Is(ir::kElementwiseOps) && !u.Is({Op::LOAD, Op::STORE, Op::GEP, Op::STACK, Op::WMMA}))
    return 0;
  const UOp value = u.Is(Op::STORE) ? u.src(1) : u;
  const double registers =
      std::max(1.0, static_cast<double>(lanes * std::max<int64_t>(1, ir::ByteSize(value.dtype()))) /
                        target.vector_bytes);
  switch (u.op()) {
    case Op::LOAD:
    case Op::STORE: {
      const bool in_memory = ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM);
      return registers * (in_memory ? kAccess : kInstruction);
    }
    case Op::CDIV:
    case Op::CMOD:
    case Op::FDIV:
    case Op::SQRT:
      return registers * kDivision;
    case Op::EXP2:
    case Op::EXP:
      if (u.tag() == ir::kByScaling) return registers * kScaledExp2;
      return static_cast<double>(lanes) * kCall;
    case Op::LOG2:
    case Op::SIN:
    case Op::LOG:
    case Op::COS:
    case Op::POW:
      return static_cast<double>(lanes) * kCall;
    default:
      return registers * kInstruction;
  }
}

struct Loop {
  UOp range;
  double body_ns = 0;
  bool polls_inside = false;
};

double MostIterations(ir::UOpContext& ctx, UOp range) {
  return std::max(0.0, static_cast<double>(ctx.BoundsOf(range).max) + 1);
}

// The number of iterations between two polls: a power of two, which divides the size of many loops.
int64_t Interval(const Loop& loop, double between_ns) {
  const double wanted = between_ns / std::max(loop.body_ns, kInstruction);
  return wanted < 2 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(wanted)));
}

// Estimates the whole kernel. Calls visit(loop, cost of all its iterations) for each loop, inner
// loops first; `visit` returns whether the loop or a loop inside of it polls.
template <class Visit>
double Walk(ir::UOpContext& ctx, UOp linear, const Target& target, const Visit& visit) {
  std::vector<Loop> open(1);
  LaneCounter lanes(ctx);
  for (UOp u : linear.srcs()) {
    if (ctx.Interrupted()) return 0;
    if (u.Is(Op::RANGE)) {
      open.push_back({u});
    } else if (u.Is(Op::END)) {
      for (size_t i = 1; i < u.n_src(); ++i) {
        const Loop loop = open.back();
        open.pop_back();
        const double all = (loop.body_ns + kInstruction) * MostIterations(ctx, loop.range);
        open.back().body_ns += all;
        open.back().polls_inside |= visit(loop, all);
      }
    } else {
      open.back().body_ns += LineNs(u, lanes.Count(u), target);
    }
  }
  return open[0].body_ns;
}

}  // namespace

double ProgramNs(ir::UOpContext& ctx, UOp linear, const Target& target) {
  return Walk(ctx, linear, target, [](const Loop&, double) { return false; });
}

UOp PollAtStart(ir::UOpContext& ctx, UOp linear) {
  return ctx.Make(Op::LINEAR, ir::Dtype::Void, linear.srcs(), {}, 1);
}

UOp AddPolls(ir::UOpContext& ctx, UOp linear, const Target& target) {
  absl::flat_hash_map<uint32_t, int64_t> tags;
  const double between_ns = MachineOf(target).poll_ns;
  Walk(ctx, linear, target, [&](const Loop& loop, double all) {
    if (all <= between_ns || loop.polls_inside) return loop.polls_inside;
    tags[loop.range.id()] = Interval(loop, between_ns);
    return true;
  });
  absl::flat_hash_map<uint32_t, UOp> made;  // id of a changed line -> its replacement
  std::vector<UOp> lines, srcs;
  for (UOp u : linear.srcs()) {
    if (ctx.Interrupted()) return linear;
    const auto tag = tags.find(u.id());
    bool changes = tag != tags.end();
    srcs.clear();
    for (UOp s : u.srcs()) {
      const auto it = made.find(s.id());
      changes |= it != made.end();
      srcs.push_back(it == made.end() ? s : it->second);
    }
    if (changes) {
      u = made[u.id()] =
          ctx.Make(u.op(), u.dtype(), srcs, u.arg(), tag == tags.end() ? u.tag() : tag->second);
    }
    lines.push_back(u);
  }
  return ctx.Make(Op::LINEAR, ir::Dtype::Void, lines);
}

}  // namespace uopd::codegen
