// SPDX-License-Identifier: MIT
#include "core/schedule/fusion.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/spec.h"
#include "core/schedule/describe.h"
#include "core/schedule/sharing.h"
#include "core/schedule/staging.h"
#include "core/schedule/used_ranges.h"

namespace uopd::schedule {
namespace {

using ir::AxisType;
using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;
using ir::UOpContext;

constexpr int32_t kDefaultDevice = 0;
constexpr size_t kFewDemands = 8;

class Fuser {
 public:
  Fuser(UOpContext& ctx, rewrite::Rewriter& simplify, const FusionOptions& options)
      : ctx_(ctx),
        simplify_(simplify),
        options_(options),
        sharing_(f_),
        staging_(ctx, f_, used_, picked_, options) {}

  absl::StatusOr<Fusion> Run(UOp sink) {
    f_.order = ir::Toposort(ctx_, sink);
    f_.position.resize(ctx_.size());
    for (uint32_t i = 0; i < f_.order.size(); ++i) f_.position[f_.order[i].id()] = i;
    UOPD_TRY(Describe(ctx_, options_, f_));
    followers_.resize(f_.order.size());
    must_realise_.resize(f_.order.size(), false);
    afters_.resize(f_.order.size());
    for (UOp u : f_.order) {
      for (UOp s : u.srcs()) {
        if (s.Is(Op::PARAM)) ++uses_of_slot_[s.slot()];
        if (u.Is(Op::AFTER) && s.Is(Op::STORE)) afters_[f_.position[s.id()]].push_back(u);
      }
    }
    for (size_t i = f_.order.size(); i-- > 0;) {
      const UOp u = f_.order[i];
      if (u.Is(Op::STORE)) {
        UOPD_TRY(VisitStore(u));
      } else if (!f_.info[i].demands.empty() || must_realise_[i]) {
        Visit(u);
      }
    }
    return std::move(f_);
  }

 private:
  uint32_t Position(UOp u) const { return f_.position[u.id()]; }
  UOp Simple(UOp u) {
    const bool is_simple = u.Is(Op::CONST) || (u.Is(Op::RANGE) && u.src(0).Is(Op::CONST));
    return is_simple ? u : simplify_.Run(u);
  }

  int32_t NewTemporary(UOp u, int32_t device) {
    f_.storages.push_back({Storage::kTemporary, next_temporary_++, u.dtype(),
                           ir::MaxDims(ctx_, *ctx_.ShapeOf(u)), device, UOp()});
    return static_cast<int32_t>(f_.storages.size() - 1);
  }

  // A root with fresh ranges over `shape`.
  uint32_t NewRoot(Shape shape, int32_t device) {
    Root root;
    root.device = device;
    for (UOp d : shape) {
      if (d.IsConstInt(1)) continue;
      root.ranges.push_back(ir::Range(ctx_, d, root.next_range++, AxisType::LOOP));
    }
    root.loops = static_cast<uint32_t>(f_.loops.size());
    f_.loops.push_back(root.ranges);
    f_.roots.push_back(std::move(root));
    return static_cast<uint32_t>(f_.roots.size() - 1);
  }

  // The index of the element of a value of this shape that one iteration of the root is about.
  // REQUIRES: the root's ranges are those of the shape.
  IndexList WholeIndex(uint32_t root, Shape shape) {
    IndexList index;
    size_t next = 0;
    for (UOp d : shape)
      index.push_back(d.IsConstInt(1) ? ctx_.Idx(0) : f_.roots[root].ranges[next++]);
    return index;
  }

  uint32_t AskWhole(uint32_t root, UOp u) {
    Demand d;
    d.index = WholeIndex(root, *ctx_.ShapeOf(u)), d.gate = ctx_.Bool(true);
    d.root = root, d.loops = f_.roots[root].loops;
    return Ask(u, std::move(d));
  }

  // Records a demand, or finds the equal one.
  uint32_t Ask(UOp u, Demand d) {
    if (IsUniform(u)) return 0;
    for (UOp& i : d.index) i = Simple(i);
    d.gate = Simple(d.gate);
    uint64_t hash = Mix(d.root, d.gate.id());
    hash = Mix(hash, d.after ? d.after.id() + 1 : 0);
    for (UOp i : d.index) hash = Mix(hash, i.id());
    d.hash = hash;
    auto& demands = f_.at(u).demands;
    auto same = [&](const Demand& e) {
      return e.hash == d.hash && e.root == d.root && e.gate == d.gate && e.after == d.after &&
             e.index == d.index;
    };
    // Most nodes have few; the map has the others.
    const size_t few = std::min(demands.size(), kFewDemands);
    for (uint32_t i = 0; i < few; ++i) {
      if (same(demands[i])) return i;
    }
    const auto number = static_cast<uint32_t>(demands.size());
    if (few == kFewDemands) {
      const auto [it, fresh] = asked_.try_emplace({Position(u), hash}, number);
      if (!fresh && same(demands[it->second])) return it->second;
    }
    demands.push_back(std::move(d));
    return number;
  }

  // The loops around a demand from which its evaluation cannot be moved out: down to the innermost
  // one that it uses.
  std::span<const UOp> NeededLoops(const Demand& d) {
    uint64_t used = used_.In(d.gate);
    for (UOp x : d.index) used |= used_.In(x);
    const std::vector<UOp>& loops = f_.loops[d.loops];
    size_t needed = loops.size();
    while (needed > 0 && (used & UsedRanges::Bit(loops[needed - 1])) == 0) --needed;
    return std::span(loops).first(needed);
  }

  // `picks`: u is zero but where a picking reduction takes it, so it goes with its loop.
  double Trips(const Demand& d, bool picks) {
    double trips = 1;
    for (UOp range : NeededLoops(d)) {
      if (!picked_.contains(range.id()))
        trips *= static_cast<double>(ctx_.BoundsOf(range.src(0)).max);
      else if (picks)
        return 0;
    }
    return trips;
  }

  // True if the index is one of an axis of this size at every iteration, gated or not.
  bool IsInside(UOp index, UOp size) {
    if (index.Is(Op::RANGE)) return index.src(0) == size;
    const ir::Bounds at = ctx_.BoundsOf(index);
    return at.min >= 0 && at.max < ctx_.BoundsOf(size).min;
  }

  // A COPY that really moves its source to another device.
  bool IsTransfer(UOp u) const {
    if (!u.Is(Op::COPY)) return false;
    const int32_t from = f_.at(u.src(0)).device;
    return from >= 0 && from != f_.at(u).device;
  }

  // How often all demands together would compute u; 0 where that does not matter.
  double TripsOf(UOp u, const NodeInfo& info) {
    if (!u.Is(ir::kElementwiseOps) && !u.Is(Op::REDUCE)) return 0;
    const bool picks = options_.picks->Picking(Position(u));
    double trips = 0;
    for (const Demand& d : info.demands) trips += Trips(d, picks);
    return trips;
  }

  double RealiseCost(const NodeInfo& info, double trips) const {
    return std::max(1.0, info.elements) * (info.work + options_.realise_cost) + trips * kLoadWork +
           options_.launch_cost;
  }

  bool Alone(UOp u) const { return options_.constraints->alone.contains(u.id()); }
  bool Forced(UOp u) const {
    return must_realise_[Position(u)] || options_.constraints->realise.contains(u.id());
  }

  absl::Status VisitStore(UOp store) {
    const UOp value = store.src(1);
    const Shape shape = *ctx_.ShapeOf(value);
    const UOp base = ir::MaybeBaseOf(store.src(0));
    Output out;
    out.node = store, out.value = value;
    out.storage = f_.slot_storage.at(base.slot());
    const int32_t device = f_.storages[static_cast<size_t>(out.storage)].device;
    const int32_t value_device = f_.at(value).device;
    if (value_device >= 0 && value_device != device) {
      return absl::InvalidArgumentError(
          Cat("STORE of a value on ", f_.devices[static_cast<size_t>(value_device)],
              " into a buffer on ", f_.devices[static_cast<size_t>(device)]));
    }
    Candidate c;
    c.shape = shape, c.value = value, c.storage = out.storage, c.device = device;
    for (UOp after : afters_[Position(store)]) {
      const NodeInfo& info = f_.at(after);
      const bool forwards = MaybeOnlyStore(after) == store;
      for (const Demand& d : info.demands) c.demands.push_back({&d, forwards});
      for (uint32_t r : followers_[Position(after)]) c.followers.push_back(r);
    }
    int32_t found = Alone(store) ? -1 : sharing_.Find(c);
    const bool joins = found >= 0;
    const uint32_t r = joins ? static_cast<uint32_t>(found) : NewRoot(shape, device);
    if (Alone(store)) f_.roots[r].alone = true;
    // Where the element goes: the target's movement ops, from the outside in.
    out.index = WholeIndex(r, shape);
    UOp target = store.src(0), gate = ctx_.Bool(true);
    out.covers = true;
    while (target != base) {
      if (target.Is(Op::AFTER)) {
        out.after.push_back(target);
        followers_[Position(target)].push_back(r);
      } else if (target.Is(OpSet{Op::EXPAND, Op::PAD})) {
        return absl::InvalidArgumentError(
            Cat("STORE through ", ir::Name(target.op()), ": its elements are no distinct memory"));
      } else {
        out.index = SourceIndex(ctx_, target, out.index, gate);
        out.covers = false;
      }
      target = target.src(0);
    }
    for (UOp& i : out.index) i = Simple(i);
    out.sole = out.covers && uses_of_slot_[base.slot()] == 1;
    out.demand = AskWhole(r, value);
    const auto number = static_cast<uint32_t>(f_.roots[r].outputs.size());
    f_.stores[store.id()] = {r, number};
    f_.roots[r].outputs.push_back(std::move(out));
    sharing_.Add(r, c);
    return absl::OkStatus();
  }

  void Visit(UOp u) {
    const NodeInfo& info = f_.at(u);
    if (Forced(u)) return Realise(u, true);
    const double trips = TripsOf(u, info), realised = RealiseCost(info, trips);
    const bool must = u.Is(Op::CONTIGUOUS) || IsTransfer(u);
    const bool realise = (must || trips * info.work > realised) && !OnlyStored(u);
    const auto plan = must ? std::nullopt : staging_.Plan(u, trips);
    if (plan && (!realise || plan->cost < realised)) return StageValue(u, *plan);
    if (realise) return Realise(u, false);
    for (uint32_t k = 0; k < f_.at(u).demands.size(); ++k) Propagate(u, k);
  }

  void StageValue(UOp u, const StagePlan& plan) {
    Demand d;
    d.index = f_.at(u).demands[0].index, d.gate = ctx_.Bool(true), d.fills = true;
    d.root = f_.at(u).demands[0].root;
    StagedValue value;
    std::vector<UOp> loops = plan.loops;
    const Shape shape = *ctx_.ShapeOf(u);
    for (size_t a : plan.axes) {
      Root& root = f_.roots[d.root];
      const UOp range = ir::Range(ctx_, shape[a], root.next_range++, AxisType::REDUCE);
      d.index[a] = range;
      value.ranges.push_back(range), loops.push_back(range);
      value.dims.push_back(static_cast<int64_t>(ctx_.BoundsOf(shape[a]).max));
    }
    value.axes = plan.axes;
    d.loops = static_cast<uint32_t>(f_.loops.size());
    f_.loops.push_back(std::move(loops));
    f_.roots[d.root].cached_bytes += plan.cached_bytes;
    f_.roots[d.root].staged_bytes += plan.elements * ir::ByteSize(u.dtype());
    const uint32_t k = value.demand = Ask(u, std::move(d));
    f_.at(u).staged = static_cast<int32_t>(f_.staged.size());
    f_.staged.push_back(std::move(value));
    Propagate(u, k);
  }

  // Nothing is realised just to be stored: the only demand is that of a STORE of all of it.
  bool OnlyStored(UOp u) {
    const NodeInfo& info = f_.at(u);
    if (info.demands.size() != 1 || !followers_[Position(u)].empty()) return false;
    const int32_t o = StoredBy(u, 0);
    if (o < 0) return false;
    if (!IsTransfer(u)) return true;
    // A copy can go straight to where it is stored.
    Root& root = f_.roots[info.demands[0].root];
    return root.outputs.size() == 1 && root.outputs[0].covers;
  }

  // The output of demand k's root that stores u whole, or -1.
  int32_t StoredBy(UOp u, uint32_t k) {
    const Root& root = f_.roots[f_.at(u).demands[k].root];
    for (size_t o = 0; o < root.outputs.size(); ++o) {
      const Output& out = root.outputs[o];
      if (out.value == u && out.demand == k && out.node.Is(Op::STORE))
        return static_cast<int32_t>(o);
    }
    return -1;
  }

  void Realise(UOp u, bool forced) {
    NodeInfo& info = f_.at(u);
    const int32_t device = info.device < 0 ? kDefaultDevice : info.device;
    Candidate c;
    c.shape = *ctx_.ShapeOf(u), c.value = u, c.device = device;
    for (const Demand& d : info.demands) c.demands.push_back({&d, true});
    c.followers.assign(followers_[Position(u)].begin(), followers_[Position(u)].end());
    const bool transfer = IsTransfer(u), alone = forced || transfer || Alone(u);
    if (!alone && LiveInSlot(u, c)) return;
    const int32_t found = alone ? -1 : sharing_.Find(c);
    const uint32_t r = found >= 0 ? static_cast<uint32_t>(found) : NewRoot(c.shape, device);
    if (alone) f_.roots[r].alone = true;
    Output out;
    out.node = out.value = u;
    out.storage = NewTemporary(u, device);
    out.index = WholeIndex(r, c.shape);
    if (!transfer) out.demand = AskWhole(r, u);
    NodeInfo& mine = f_.at(u);  // Ask may have moved the demands
    mine.realised = static_cast<int32_t>(r);
    mine.output = static_cast<uint32_t>(f_.roots[r].outputs.size());
    f_.roots[r].outputs.push_back(std::move(out));
    // What Find saw is stale where demands moved.
    c.demands.clear();
    for (const Demand& d : mine.demands) c.demands.push_back({&d, true});
    sharing_.Add(r, c);
    if (transfer) return MakeCopy(r, u);
    PropagateOwn(u);
  }

  // Demands that are computed although u is realised: those of the root that writes it, and those
  // for another state of the buffer under u.
  void PropagateOwn(UOp u) {
    for (uint32_t k = 0; k < f_.at(u).demands.size(); ++k) {
      const Demand& d = f_.at(u).demands[k];
      if (d.after || d.root == static_cast<uint32_t>(f_.at(u).realised)) Propagate(u, k);
    }
  }

  // If u is stored whole into a slot that nothing else touches, that is where its other consumers
  // load it from.
  bool LiveInSlot(UOp u, const Candidate& c) {
    for (uint32_t k = 0; k < f_.at(u).demands.size(); ++k) {
      const int32_t o = StoredBy(u, k);
      const uint32_t r = f_.at(u).demands[k].root;
      if (o < 0 || !f_.roots[r].outputs[static_cast<size_t>(o)].sole || !sharing_.Fits(r, c))
        continue;
      NodeInfo& info = f_.at(u);
      info.realised = static_cast<int32_t>(r), info.output = static_cast<uint32_t>(o);
      sharing_.Add(r, c);
      PropagateOwn(u);
      return true;
    }
    return false;
  }

  // Turns root r, whose only output is the COPY u or stores it, into the transfer. Its source must
  // be whole in memory.
  void MakeCopy(uint32_t r, UOp u) {
    Root& root = f_.roots[r];
    root.is_copy = true, root.alone = true;
    UOp source = u.src(0);
    while (source.Is(Op::RESHAPE)) source = source.src(0);
    root.outputs[0].value = source;
    followers_[Position(source)].push_back(r);
    const bool in_memory =
        source.Is(Op::PARAM) || (source.Is(Op::AFTER) && !source.src(0).Is(ir::kMovementOps));
    if (!in_memory) must_realise_[Position(source)] = true;
  }

  // Turns demand k of u into demands on its sources. References into demands do not survive Ask.
  void Propagate(UOp u, uint32_t k) {
    if (IsTransfer(u)) return MakeCopy(f_.at(u).demands[k].root, u);  // see OnlyStored
    Demand d = f_.at(u).demands[k];
    absl::InlinedVector<uint32_t, 3> sources;
    auto ask = [&](UOp s, IndexList index, UOp gate, uint32_t loops, UOp after) {
      Demand e;
      e.index = std::move(index), e.gate = gate, e.root = d.root, e.loops = loops, e.after = after;
      sources.push_back(Ask(s, std::move(e)));
    };
    if (u.Is(ir::kMovementOps)) {
      UOp gate = d.gate;
      IndexList index = SourceIndex(ctx_, u, d.index, gate);
      ask(u.src(0), std::move(index), gate, d.loops, d.after);
    } else if (u.Is(Op::AFTER)) {
      ask(u.src(0), d.index, d.gate, d.loops, d.after ? d.after : u);
    } else if (u.Is(Op::REDUCE)) {
      IndexList index = d.index;
      const auto needed = NeededLoops(d);
      std::vector<UOp> loops(needed.begin(), needed.end());
      const Shape in = *ctx_.ShapeOf(u.src(0));
      const Picks& picks = *options_.picks;
      for (int64_t a : u.reduce_axes()) {
        const UOp size = in[static_cast<size_t>(a)];
        if (size.IsConstInt(1)) {
          index[static_cast<size_t>(a)] = ctx_.Idx(0);
          continue;
        }
        const UOp range = ir::Range(ctx_, size, f_.roots[d.root].next_range++, AxisType::REDUCE);
        index[static_cast<size_t>(a)] = range;
        if (picks.Collapses(Position(u), in.size(), a)) picked_.insert(range.id());
        d.reduce_ranges.push_back(range);
        loops.push_back(range);
      }
      f_.loops.push_back(std::move(loops));
      staging_.NoteReduce(u);
      ask(u.src(0), std::move(index), d.gate, static_cast<uint32_t>(f_.loops.size() - 1), d.after);
    } else if (u.Is(Op::STACK)) {
      IndexList index(d.index.begin() + 1, d.index.end());
      for (size_t i = 0; i < u.n_src(); ++i) {
        const UOp here = ir::Alu(ctx_, Op::CMPEQ, {d.index[0], ctx_.Idx(static_cast<int64_t>(i))});
        ask(u.src(i), index, ir::And(ctx_, d.gate, here), d.loops, d.after);
      }
    } else {
      for (UOp s : ValueSources(u)) {
        // Broadcasting: trailing axes, size-1 ones at 0.
        const Shape in = *ctx_.ShapeOf(s);
        IndexList index;
        bool inside = f_.at(s).elements < f_.at(u).elements;
        for (size_t i = 0; i < in.size(); ++i) {
          index.push_back(in[i].IsConstInt(1) ? ctx_.Idx(0)
                                              : d.index[d.index.size() - in.size() + i]);
          inside = inside && IsInside(index.back(), in[i]);
        }
        // What broadcasts can be computed outside of loops that only the gate uses.
        ask(s, std::move(index), inside ? ctx_.Bool(true) : d.gate, d.loops, d.after);
      }
    }
    Demand& stored = f_.at(u).demands[k];
    stored.sources = static_cast<uint32_t>(f_.sources.size());
    f_.sources.insert(f_.sources.end(), sources.begin(), sources.end());
    stored.reduce_ranges = std::move(d.reduce_ranges);
  }

  UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  const FusionOptions& options_;
  Fusion f_;
  Sharing sharing_;
  UsedRanges used_;
  std::vector<bool> must_realise_;                // by position
  std::vector<std::vector<uint32_t>> followers_;  // by position: roots that wait for it, no demand
  std::vector<std::vector<UOp>> afters_;          // by position of a STORE
  absl::flat_hash_map<int64_t, int> uses_of_slot_;
  absl::flat_hash_set<uint32_t> picked_;  // ids of ranges that will not be loops
  Staging staging_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> asked_;
  int64_t next_temporary_ = 0;
};

}  // namespace

std::span<const UOp> ValueSources(UOp u) {
  switch (u.op()) {
    case Op::STORE:
      return u.srcs().subspan(1, 1);
    case Op::SINK:
    case Op::PARAM:
    case Op::IOTA:
    case Op::BIND:
    case Op::DEFINE_VAR:
    case Op::CONST:
      return {};
    case Op::STACK:
      return u.dtype() == ir::Dtype::Index ? std::span<const UOp>() : u.srcs();
    default:
      break;
  }
  return u.Is(ir::kMovementOps) || u.Is(Op::AFTER) ? u.srcs().first(1) : u.srcs();
}

UOp MaybeOnlyStore(UOp u) {
  if (!u.Is(Op::AFTER) || u.n_src() != 2) return UOp();
  const UOp store = u.src(1);
  if (!store.Is(Op::STORE) || ir::MaybeBaseOf(store.src(0)) != ir::MaybeBaseOf(u.src(0)))
    return UOp();
  for (UOp t = store.src(0); !t.Is(Op::PARAM); t = t.src(0)) {
    if (!t.Is(Op::AFTER)) return UOp();  // it writes a part, or elsewhere
  }
  return u.src(0).Is(Op::PARAM) || u.src(0) == store.src(0) ? store : UOp();
}

absl::StatusOr<Fusion> Fuse(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink,
                            const FusionOptions& options) {
  return Fuser(ctx, simplify, options).Run(sink);
}

}  // namespace uopd::schedule
