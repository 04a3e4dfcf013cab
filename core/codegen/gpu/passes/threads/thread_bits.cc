// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/threads/thread_bits.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// A warp's access moves lines of this size.
constexpr double kTransactionBytes = 128, kWarp = 32;

bool Before(UOp a, UOp b) {
  return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
}

void Insert(std::vector<UOp>& set, UOp range) {
  const auto at = std::lower_bound(set.begin(), set.end(), range, Before);
  if (at == set.end() || *at != range) set.insert(at, range);
}

// Transactions of a warp whose lanes step along the range, for one access.
double Transactions(ir::UOpContext& ctx, UOp index, UOp range) {
  const auto stride = StrideAlong(ctx, index.src(1), range);
  if (!stride) return kWarp;
  const double bytes =
      static_cast<double>(std::abs(*stride)) * static_cast<double>(ir::ByteSize(index.dtype()));
  return std::clamp(bytes * kWarp / kTransactionBytes, 1.0, kWarp);
}

}  // namespace

ThreadBits::ThreadBits(ir::UOpContext& ctx, UOp sink) {
  std::vector<UOp> ranges, accesses;
  absl::flat_hash_map<uint32_t, std::vector<UOp>> meets;  // ranges that some value also depends on
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<UOp>& mine = along_[u.id()];
    if (IsLocalRange(u)) {
      mine.push_back(u);
      ranges.push_back(u);
    }
    for (UOp s : u.srcs()) {
      if (IsSharedStage(s)) continue;
      for (UOp r : along_.at(s.id())) Insert(mine, r);
    }
    if (!u.Is(Op::SINK)) {
      for (UOp a : mine) {
        for (UOp b : mine) {
          if (a != b) Insert(meets[a.id()], b);
        }
      }
    }
    for (UOp r : u.closed()) std::erase(mine, r);
    if (u.Is({Op::LOAD, Op::STORE}) && u.src(0).src(0).Is(Op::PARAM)) accesses.push_back(u.src(0));
  }
  absl::flat_hash_map<uint32_t, double> cost;
  for (UOp index : accesses) {
    for (UOp r : ranges) cost[r.id()] += Transactions(ctx, index, r);
  }
  std::sort(ranges.begin(), ranges.end(), [&](UOp a, UOp b) {
    const auto key = [&](UOp r) {
      const int place = r.tag() == kWarpRange ? 0 : r.tag() == kUpperWarpRange ? 1 : 2;
      return std::tuple(place, cost[r.id()], -r.axis_id(), r.id());
    };
    return key(a) < key(b);
  });
  for (UOp r : ranges) {
    Field field{0, std::countr_zero(static_cast<uint64_t>(r.src(0).const_int()))};
    const auto taken = [&] {
      for (UOp other : meets[r.id()]) {
        const auto it = fields_.find(other.id());
        if (it != fields_.end() && (it->second.mask() & field.mask()) != 0) return true;
      }
      return false;
    };
    while (taken()) ++field.first;
    fields_[r.id()] = field;
    bits_ = std::max(bits_, field.first + field.count);
  }
}

}  // namespace uopd::codegen
