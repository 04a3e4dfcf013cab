// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/threads/map_threads.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/text.h"
#include "core/codegen/gpu/passes/threads/shared_stage.h"
#include "core/codegen/gpu/passes/threads/thread_digits.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

bool IsOf(UOp u, AxisType type) { return u.Is(Op::RANGE) && u.axis_type() == type; }

void CollectStores(UOp statement, std::vector<UOp>& out) {
  if (statement.Is(Op::STORE)) out.push_back(statement);
  if (!statement.Is({Op::GROUP, Op::END})) return;
  for (UOp s : statement.body()) CollectStores(s, out);
}

// The threads of a group combine their partial results, so that all of them have the result (opts
// GROUP and GROUPTOP).
//
// The bits of the thread's number that lie inside of a warp are combined by SHUFFLEs, a butterfly:
// all lanes add the same terms in the same order up to commutation, so they have the same result.
// The other bits are combined through shared memory: each thread stores its partial result and
// reads those of all others, in two steps of about the square root of their number if there are
// many.
struct Group {
  int64_t mask = 0;       // the bits of the thread's number that the reduction combines
  int64_t open_mask = 0;  // the bits of the LOCAL ranges that the result depends on
  int64_t lanes = 1;      // that read each other's values (SHUFFLE)
};

constexpr int kBitsAtOnce = 4;  // of partial results that one thread reads in one step

int64_t Bits(int64_t mask) { return std::popcount(static_cast<uint64_t>(mask)); }

// The lowest n bits that are set.
int64_t LowestOf(int64_t mask, int64_t n) {
  int64_t out = 0;
  for (; n > 0; --n, mask &= mask - 1) out |= mask & -mask;
  return out;
}

// The thread's result over the threads of the group, by shared memory.
UOp Exchange(ir::UOpContext& ctx, Op op, UOp partial, const Group& group,
             const ThreadDigits& digits, int64_t& next_id) {
  const int64_t combined = group.mask, kept = group.open_mask;
  const int64_t n = int64_t{1} << Bits(combined), copies = int64_t{1} << Bits(kept);
  const auto place = [&](UOp at) {
    return rules::IndexSum(ctx, rules::IndexProduct(ctx, digits.Gathered(kept), ctx.Idx(n)), at);
  };
  const int64_t idle = (digits.threads() - 1) & ~(combined | kept);
  const UOp stage = ir::Staged(ctx, partial, n * copies, place(digits.Gathered(combined)),
                               digits.MaybeAllZero(idle), {});
  const UOp array = ctx.Make(Op::STAGE, stage.dtype(), stage.srcs(), stage.arg(), kSharedStage);
  const UOp other = Range(ctx, ctx.Idx(n), next_id++, AxisType::UNROLL);
  return ir::ReduceRanges(ctx, op, ir::Load(ctx, ir::Index(ctx, array, place(other))),
                          std::array<UOp, 1>{other});
}

// The combination by `op` of `partial` over the threads of the group. New RANGEs get axis ids from
// `next_id` on.
UOp GroupReduce(ir::UOpContext& ctx, Op op, UOp partial, const Group& group,
                const ThreadDigits& digits, int64_t& next_id) {
  UOp value = partial;
  int64_t left = group.mask;
  for (int64_t bit = 1; bit < group.lanes; bit *= 2) {
    if ((left & bit) == 0) continue;
    left &= ~bit;
    value =
        Combine(ctx, op, value, ctx.Make(Op::SHUFFLE, value.dtype(), {value}, ir::Arg::Int(bit)));
  }
  while (left != 0) {
    // All steps of about the same length; the highest bits first.
    const int64_t bits = Bits(left), steps = (bits + kBitsAtOnce - 1) / kBitsAtOnce;
    const int64_t now = left & ~LowestOf(left, bits - (bits + steps - 1) / steps);
    left &= ~now;
    value = Exchange(ctx, op, value, {now, group.open_mask | left}, digits, next_id);
  }
  return value;
}

class Mapper {
 public:
  Mapper(ir::UOpContext& ctx, UOp sink, const Target& target, int64_t persistent)
      : ctx_(ctx),
        target_(target),
        sink_(sink),
        persistent_(persistent),
        bits_(ctx, sink),
        digits_(ctx, bits_.threads()) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (u.Is(Op::RANGE)) next_id_ = std::max(next_id_, u.axis_id() + 1);
      if (IsOf(u, AxisType::GLOBAL)) grid_.push_back(u);
    }
    std::sort(grid_.begin(), grid_.end(), [](UOp a, UOp b) { return a.axis_id() < b.axis_id(); });
  }

  absl::StatusOr<ThreadMap> Run() {
    if (digits_.threads() > std::min(target_.max_block_threads, target_.max_block[0]))
      return absl::InvalidArgumentError(Cat("a block would have ", digits_.threads(), " threads"));
    UOPD_ASSIGN(const UOp blocks, MapGrid());
    for (UOp root : sink_.srcs()) FindIdle(root);
    FindIdleLoads();
    ThreadMap out{UOp(), digits_.threads(), blocks};
    out.sink = Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> s) { return Map(u, s); });
    if (!parts_) return out;
    std::vector<UOp> statements;
    for (UOp s : out.sink.srcs()) statements.push_back(InLoop(s));
    out.sink = ctx_.WithSources(out.sink, statements);
    return out;
  }

 private:
  // Splits the number of the block into the GLOBAL ranges, the last one fastest.
  absl::StatusOr<UOp> MapGrid() {
    UOp blocks = ctx_.Idx(1);
    for (UOp r : grid_) blocks = rules::IndexProduct(ctx_, blocks, r.src(0));
    if (persistent_ == 0 && ctx_.BoundsOf(blocks).max > target_.max_grid[0])
      return absl::InvalidArgumentError(
          Cat("a launch would have over ", target_.max_grid[0], " blocks"));
    const UOp launched = persistent_ == 0 ? blocks : ctx_.Idx(persistent_);
    UOp number = ctx_.Make(Op::SPECIAL, Dtype::Index, {launched},
                           ctx_.Data({static_cast<int64_t>(AxisType::GLOBAL), 0}));
    if (persistent_ != 0) {
      const UOp others = Sub(ctx_, Add(ctx_, blocks, ctx_.Idx(persistent_ - 1)), number);
      parts_ = Range(ctx_, ir::Alu(ctx_, Op::FLOORDIV, {others, launched}), 0, AxisType::LOOP);
      ++next_id_;  // the ids of all other loops rise by 1: this one is the outermost
      number = rules::IndexSum(ctx_, rules::IndexProduct(ctx_, parts_, launched), number);
    }
    for (size_t i = grid_.size(); i-- > 0;) {
      const UOp size = grid_[i].src(0);
      const UOp part = i == 0 ? number : ir::Alu(ctx_, Op::FLOORMOD, {number, size});
      made_[grid_[i].id()] =
          LastIsLongest(grid_[i]) ? Sub(ctx_, Sub(ctx_, size, ctx_.Idx(1)), part) : part;
      number = ir::Alu(ctx_, Op::FLOORDIV, {number, size});
    }
    return launched;
  }

  // Whether loops are longer in later iterations of a GLOBAL range, as those over the keys before a
  // query are. The longest blocks begin first: a block that begins last and takes longest would run
  // alone.
  bool LastIsLongest(UOp grid) const {
    if (!grid.src(0).Is(Op::CONST)) return false;
    const auto at = [&](UOp size, int64_t value) {
      return ctx_.BoundsOf(ir::Substitute(ctx_, size, {{grid.id(), ctx_.Idx(value)}})).max;
    };
    const auto grows = [&](UOp u) {
      if (!u.Is(Op::RANGE) || u.src(0).Is(Op::CONST)) return false;
      const auto order = ir::Toposort(ctx_, u.src(0));
      return std::ranges::find(order, grid) != order.end() &&
             at(u.src(0), 0) < at(u.src(0), grid.src(0).const_int() - 1);
    };
    return std::ranges::any_of(ir::Toposort(ctx_, sink_), grows);
  }

  // A statement in the loop over the parts of a PERSISTent block.
  UOp InLoop(UOp statement) {
    if (!statement.Is(Op::END)) return ir::End(ctx_, statement, std::span<const UOp>(&parts_, 1));
    std::vector<UOp> ranges = {parts_};
    for (UOp r : statement.closed()) ranges.push_back(r);
    return ir::End(ctx_, statement.src(0), ranges);
  }

  int64_t MaskOf(std::span<const UOp> ranges) const {
    int64_t out = 0;
    for (UOp r : ranges) out |= IsOf(r, AxisType::LOCAL) ? bits_.Of(r).mask() : 0;
    return out;
  }
  int64_t Others(int64_t mask) const { return (digits_.threads() - 1) & ~mask; }

  // The threads that have no part of their own in a STORE do not store.
  void FindIdle(UOp root) {
    std::vector<UOp> stores;
    CollectStores(root, stores);
    const int64_t used = root.Is(Op::END) ? MaskOf(root.closed()) : 0;
    for (UOp s : stores) idle_[s.id()] = digits_.MaybeAllZero(Others(used));
  }

  // A thread that does not store must not load what another thread stores, either: it may come
  // late. So LOADs of the element that a STORE replaces get the gate of the STORE. Its value is of
  // no use elsewhere, if no reduction, stage or address needs it, and all STOREs have one gate.
  void FindIdleLoads() {
    absl::flat_hash_map<uint32_t, UOp> stored;  // INDEX -> gate of its STORE
    UOp gate;
    for (UOp u : ir::Toposort(ctx_, sink_)) {
      if (!u.Is(Op::STORE) || !u.src(0).src(0).Is(Op::PARAM)) continue;
      const auto it = idle_.find(u.id());
      if (it == idle_.end() || !it->second || (gate && gate != it->second)) return;
      gate = it->second;
      stored[u.src(0).id()] = gate;
    }
    if (stored.empty()) return;
    std::vector<bool> needed(ctx_.size());  // by reductions, stages and addresses
    const std::vector<UOp> order = ir::Toposort(ctx_, sink_);
    for (size_t i = order.size(); i-- > 0;) {
      const UOp u = order[i];
      const bool shared = needed[u.id()] || u.Is({Op::REDUCE, Op::STAGE, Op::INDEX});
      for (UOp s : u.srcs()) needed[s.id()] = needed[s.id()] || shared;
      const auto it = u.Is(Op::LOAD) && !shared ? stored.find(u.src(0).id()) : stored.end();
      if (it != stored.end()) idle_[u.id()] = it->second;
    }
  }

  // An address with one gate more.
  UOp Gated(UOp index, UOp gate) {
    return ir::Index(ctx_, index.src(0), index.src(1),
                     MaybeBoth(ctx_, index.n_src() == 3 ? index.src(2) : UOp(), gate),
                     index.arg().AsInt());
  }

  // The sources of a closing op without the LOCAL and GLOBAL ranges.
  static std::vector<UOp> WithoutThreads(UOp u, std::span<const UOp> s) {
    std::vector<UOp> out;
    for (size_t i = 0; i < s.size(); ++i) {
      const bool closed = i >= u.n_body();
      const UOp range = u.src(i);
      if (closed && (IsOf(range, AxisType::LOCAL) || IsOf(range, AxisType::GLOBAL))) continue;
      out.push_back(s[i]);
    }
    return out;
  }

  UOp Map(UOp u, std::span<const UOp> s) {
    if (IsOf(u, AxisType::GLOBAL)) return made_.at(u.id());
    if (IsOf(u, AxisType::LOCAL)) return digits_.Digit(bits_.Of(u));
    if (parts_ && u.Is(Op::RANGE))
      return ctx_.Make(Op::RANGE, u.dtype(), s,
                       ctx_.Data({u.axis_id() + 1, static_cast<int64_t>(u.axis_type())}), u.tag());
    if (const auto it = idle_.find(u.id()); it != idle_.end() && it->second) {
      std::vector<UOp> srcs(s.begin(), s.end());
      srcs[0] = Gated(srcs[0], it->second);
      return ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
    }
    if (u.Is(Op::STORE)) return ctx_.WithSources(u, s);
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, s);
    std::vector<UOp> srcs = WithoutThreads(u, s);
    if (u.Is(Op::END))
      return srcs.size() == 1 ? srcs[0] : ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
    return u.Is(Op::REDUCE) ? MapReduce(u, std::move(srcs)) : MapStage(u, std::move(srcs));
  }

  UOp MapReduce(UOp u, std::vector<UOp> srcs) {
    const Group group{MaskOf(u.closed()), MaskOf(bits_.Along(u)),
                      target_.shuffles ? target_.warp_lanes : 1};
    if (group.mask == 0) return ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
    // The partial results of small floats are not rounded: they add up in f32.
    const bool small = ir::IsSmallFloat(u.dtype());
    const Dtype wide = small ? Dtype::F32 : u.dtype();
    srcs[0] = ir::Cast(ctx_, srcs[0], wide);
    const UOp partial =
        srcs.size() == 1 ? srcs[0] : ctx_.Make(u.op(), wide, srcs, u.arg(), u.tag());
    const UOp sum = GroupReduce(ctx_, u.reduce_op(), partial, group, digits_, next_id_);
    return ir::Cast(ctx_, sum, u.dtype());
  }

  UOp MapStage(UOp u, std::vector<UOp> srcs) {
    if (u.tag() == kThreadStage) return ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
    if (u.tag() == kDealtStage && CanBeDealt(ctx_, u)) {
      return DealStage(ctx_, ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag()), digits_, target_,
                       next_id_);
    }
    const int64_t used = MaskOf(u.closed()) | MaskOf(bits_.Along(u));
    if (const UOp busy = digits_.MaybeAllZero(Others(used))) srcs[2] = And(ctx_, srcs[2], busy);
    return ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), kSharedStage);
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  const UOp sink_;
  const int64_t persistent_;
  const ThreadBits bits_;
  const ThreadDigits digits_;
  UOp parts_;                                // the loop of a PERSISTent block; else null
  std::vector<UOp> grid_;                    // GLOBAL ranges, outermost first
  absl::flat_hash_map<uint32_t, UOp> made_;  // GLOBAL range -> its value
  absl::flat_hash_map<uint32_t, UOp> idle_;  // STORE, LOAD -> who does it; null: all threads
  int64_t next_id_ = 0;
};

}  // namespace

absl::StatusOr<ThreadMap> MapThreads(ir::UOpContext& ctx, UOp sink, const Target& target,
                                     int64_t persistent) {
  int64_t next_id = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) next_id = std::max(next_id, u.axis_id() + 1);
  }
  const UOp shared = ShareStages(ctx, sink, next_id);
  UOPD_TRY(ctx.CheckInterrupt());
  return Mapper(ctx, shared, target, persistent).Run();
}

}  // namespace uopd::codegen
