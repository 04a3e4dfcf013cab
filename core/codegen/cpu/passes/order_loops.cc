// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/passes/order_loops.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/opts/kinds/stream.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr size_t kMaxLoops = 4;      // at most 24 orders to try
constexpr int64_t kNearBytes = 256;  // what is read this far ahead has been fetched already

// One load of the kernel.
struct Traffic {
  std::vector<bool> loops;      // by output loop: the load depends on it
  std::vector<bool> inside_of;  // as `loops`, or the load runs in a reduction that depends on it
  double inside = 1;            // elements read per iteration of the output loops
  double bytes = 0;             // size of one element; 0 for a staged value
  double buffer = 0;            // size of the buffer in bytes; 0 for a staged value
  std::vector<bool> jumps;      // by output loop: an iteration reads far from the one before
};

// Gives each RANGE in `from` the axis id of the RANGE in `to` at the same position.
UOp Permute(ir::UOpContext& ctx, UOp sink, std::span<const UOp> from, std::span<const UOp> to) {
  absl::flat_hash_map<uint32_t, int64_t> id;
  for (size_t i = 0; i < from.size(); ++i) id[from[i].id()] = to[i].axis_id();
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> srcs) {
    auto it = id.find(u.id());
    return it == id.end() ? ctx.WithSources(u, srcs)
                          : Range(ctx, srcs[0], it->second, u.axis_type());
  });
}

class Orderer {
 public:
  Orderer(ir::UOpContext& ctx, UOp sink, double cache_bytes)
      : ctx_(ctx), sink_(sink), cache_(cache_bytes) {
    for (UOp r : Axes(ctx, sink)) {
      if (r.axis_type() == AxisType::LOOP) loops_.push_back(r);
    }
  }

  UOp Run() {
    if (loops_.size() < 2 || loops_.size() > kMaxLoops) return sink_;
    Analyse();
    std::vector<size_t> order(loops_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<size_t> best = order;
    auto best_cost = Cost(order);
    int best_jumps = Jumps(order);
    while (std::next_permutation(order.begin(), order.end())) {
      const auto cost = Cost(order);
      const bool moves_less = cost.first < 0.7 * best_cost.first;
      const bool loads_less =
          cost.first <= 1.05 * best_cost.first && cost.second < 0.7 * best_cost.second;
      // Stores around the caches do not read what they write, so the order is that of the loads.
      const int jumps = Jumps(order);
      const bool jumps_less = streams_ && cost.first <= 1.05 * best_cost.first &&
                              cost.second <= 1.05 * best_cost.second && jumps < best_jumps;
      if (moves_less || loads_less || jumps_less) {
        best = order;
        best_cost = cost;
        best_jumps = jumps;
      }
    }
    if (std::is_sorted(best.begin(), best.end())) return sink_;
    std::vector<UOp> wanted;
    for (size_t i : best) wanted.push_back(loops_[i]);
    return Permute(ctx_, sink_, wanted, loops_);
  }

 private:
  double Size(UOp range) const {
    return static_cast<double>(std::max<ir::Int128>(1, ctx_.BoundsOf(range.src(0)).max));
  }

  void Analyse() {
    using Set = absl::flat_hash_set<uint32_t>;
    absl::flat_hash_map<uint32_t, Set> along;   // ranges that a node depends on
    absl::flat_hash_map<uint32_t, Set> around;  // ranges of the reductions and stages around it
    const auto order = ir::Toposort(ctx_, sink_);
    for (UOp u : order) {
      Set& mine = along[u.id()];
      if (u.Is(Op::RANGE)) mine.insert(u.id());
      for (UOp s : u.body()) mine.insert(along.at(s.id()).begin(), along.at(s.id()).end());
      for (UOp r : u.closed()) mine.erase(r.id());
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const UOp u = *it;
      Set outer = around[u.id()];
      if (u.Is(ir::OpSet{Op::REDUCE, Op::STAGE}))
        outer.insert(along.at(u.id()).begin(), along.at(u.id()).end());
      for (UOp s : u.body()) around[s.id()].insert(outer.begin(), outer.end());
    }
    for (UOp u : order) {
      streams_ |= u.Is(Op::STORE) && u.tag() == kStreamed;
      if (!u.Is(Op::LOAD)) continue;
      Traffic t;
      const UOp buffer = u.src(0).src(0);
      if (!buffer.Is(Op::STAGE) && !MaybeState(buffer)) {
        t.bytes = static_cast<double>(ir::ByteSize(u.dtype()));
        t.buffer =
            t.bytes * static_cast<double>(ir::Product(ir::MaxDims(ctx_, *ctx_.ShapeOf(buffer))));
      }
      bool in_reduce_loop = false;
      for (uint32_t r : along.at(u.id())) {
        const UOp range = ctx_.node(r);
        if (range.axis_type() == AxisType::LOOP) continue;
        t.inside *= Size(range);
        in_reduce_loop |= range.axis_type() == AxisType::REDUCE;
      }
      for (UOp l : loops_) {
        const bool varies = along.at(u.id()).contains(l.id());
        t.loops.push_back(varies);
        t.inside_of.push_back(varies || (in_reduce_loop && around.at(u.id()).contains(l.id())));
        const auto stride = varies ? StrideAlong(ctx_, u.src(0).src(1), l) : 0;
        t.jumps.push_back(!stride || std::abs(*stride) * ir::ByteSize(u.dtype()) > kNearBytes);
      }
      loads_.push_back(std::move(t));
    }
  }

  // The loads that jump from one iteration of the innermost loop to the next.
  int Jumps(std::span<const size_t> order) const {
    int n = 0;
    for (const Traffic& t : loads_) n += t.jumps[order.back()] ? 1 : 0;
    return n;
  }

  // Bytes loaded from beyond the cache, and the number of loads executed. From the innermost loop
  // outwards: a loop that a load does not depend on repeats its bytes only if what the inner loops
  // read does not fit in the cache.
  std::pair<double, double> Cost(std::span<const size_t> order) const {
    std::vector<double> moved, held;
    for (const Traffic& t : loads_) {
      moved.push_back(t.inside * t.bytes);
      held.push_back(std::min(t.inside * t.bytes, t.buffer));
    }
    for (size_t i = order.size(); i-- > 0;) {
      double all = 0;
      for (double h : held) all += h;
      for (size_t l = 0; l < loads_.size(); ++l) {
        const double n = Size(loops_[order[i]]);
        const bool varies = loads_[l].loops[order[i]];
        if (varies || all > cache_) moved[l] *= n;
        if (varies) held[l] = std::min(held[l] * n, loads_[l].buffer);
      }
    }
    double bytes = 0, loads = 0;
    for (double m : moved) bytes += m;
    for (const Traffic& t : loads_) {
      size_t depth = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        if (t.inside_of[order[i]]) depth = i + 1;
      }
      double n = t.inside;
      for (size_t i = 0; i < depth; ++i) n *= Size(loops_[order[i]]);
      loads += n;
    }
    return {bytes, loads};
  }

  ir::UOpContext& ctx_;
  const UOp sink_;
  const double cache_;
  std::vector<UOp> loops_;
  std::vector<Traffic> loads_;
  bool streams_ = false;  // some store goes around the caches
};

}  // namespace

UOp OrderLoops(ir::UOpContext& ctx, UOp sink, double cache_bytes) {
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::SCAN)) return sink;  // its loop must stay the innermost one
  }
  return Orderer(ctx, sink, cache_bytes).Run();
}

}  // namespace uopd::codegen
