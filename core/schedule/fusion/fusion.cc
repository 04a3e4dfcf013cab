// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/fusion.h"

#include <algorithm>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/fusion/describe.h"
#include "core/schedule/fusion/memory_runs.h"
#include "core/schedule/fusion/new_roots.h"
#include "core/schedule/fusion/realise_costs.h"
#include "core/schedule/fusion/reduce_cuts.h"
#include "core/schedule/fusion/sharing.h"
#include "core/schedule/fusion/staging.h"
#include "core/schedule/fusion/tiled_products.h"

namespace uopd::schedule {
namespace {

using ir::AxisType;
using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;
using ir::UOpContext;

constexpr int32_t kDefaultDevice = 0;  // Describe gives the default device the number 0
constexpr size_t kFewDemands = 8;      // demands of a node that are searched without a map

class Fuser {
 public:
  Fuser(UOpContext& ctx, Accesses& accesses, const FusionOptions& options, Fusion& f)
      : ctx_(ctx),
        accesses_(accesses),
        options_(options),
        f_(f),
        new_roots_(ctx, accesses, *options.constraints, f),
        sharing_(f, options),
        costs_(ctx, f, picked_, options),
        reduce_cuts_(ctx, accesses, f, picked_, options, costs_),
        staging_(ctx, f, picked_, options),
        tiled_products_(ctx, accesses, options, f) {}

  absl::Status Run() {
    f_.Restart();
    Weigh(ctx_, options_, f_);
    must_realise_.resize(f_.order.size(), false);
    is_copied_.resize(f_.order.size(), false);
    for (UOp u : f_.order) {
      for (UOp s : u.srcs()) {
        if (s.Is(Op::PARAM)) ++uses_of_slot_[s.slot()];
        if (u.Is(Op::AFTER) && s.Is(Op::STORE)) afters_[f_.position[s.id()]].push_back(u);
      }
    }
    for (size_t i = f_.order.size(); i-- > 0;) {
      if (ctx_.Interrupted(4)) return ctx_.CheckInterrupt();
      const UOp u = f_.order[i];
      if (u.Is(Op::STORE)) {
        UOPD_TRY(VisitStore(u));
      } else if (!f_.info[i].demands.empty() || must_realise_[i] || is_copied_[i]) {
        Visit(u);
      }
    }
    return absl::OkStatus();
  }

 private:
  using Followers = absl::InlinedVector<uint32_t, 2>;
  const Followers& FollowersOf(UOp u) const {
    static const auto& none = *new Followers;
    const auto it = followers_.find(Position(u));
    return it == followers_.end() ? none : it->second;
  }

  uint32_t Position(UOp u) const { return f_.position[u.id()]; }

  int32_t NewTemporary(UOp u, int32_t device) {
    const Shape* shape = f_.at(u).shape;
    f_.storages.push_back({Storage::kTemporary, next_temporary_++, u.dtype(), shape,
                           ir::Product(ir::MaxDims(ctx_, *shape)), device, UOp()});
    return static_cast<int32_t>(f_.storages.size() - 1);
  }

  // The number of this demand among those of u; a new one if u has no equal demand yet.
  uint32_t Ask(UOp u, const Access* access, uint32_t root, uint32_t loops, UOp after) {
    if (IsUniform(u)) return 0;
    auto& demands = f_.at(u).demands;
    auto same = [&](const Demand& e) {
      return e.access == access && e.root == root && e.after == after;
    };
    // Most nodes have few demands. Those after the first kFewDemands are in asked_.
    const size_t few = std::min(demands.size(), kFewDemands);
    for (uint32_t i = 0; i < few; ++i) {
      if (same(demands[i])) return i;
    }
    const auto number = static_cast<uint32_t>(demands.size());
    if (few == kFewDemands) {
      const auto [it, fresh] =
          asked_.try_emplace({Position(u), root, access, after.node()}, number);
      if (!fresh) return it->second;
    }
    Demand& d = demands.emplace_back();
    d.access = access;
    d.root = root;
    d.loops = loops;
    d.after = after;
    return number;
  }

  // True for a COPY whose source is on another device.
  bool IsTransfer(UOp u) const {
    if (!u.Is(Op::COPY)) return false;
    const int32_t from = f_.at(u.src(0)).device;
    return from >= 0 && from != f_.at(u).device;
  }

  bool MustRealise(UOp u) const { return u.Is(OpSet{Op::CONTIGUOUS, Op::SCAN}) || IsTransfer(u); }

  // Whether u adds or multiplies floats, so that its value depends on the order of the terms.
  bool Rounds(UOp u) const {
    if (!u.Is(Op::REDUCE) || u.reduce_op() == Op::MAX || !ir::IsFloat(u.dtype())) return false;
    const Shape in = *f_.at(u.src(0)).shape;
    return std::ranges::any_of(u.reduce_axes(), [&](int64_t a) {
      return !in[static_cast<size_t>(a)].IsConstInt(1) &&
             !options_.picks->Collapses(Position(u), in.size(), a);
    });
  }

  // Notes that root r computes u, if u is a running sum: its range must be the innermost loop.
  void NoteScan(uint32_t r, UOp u) {
    if (const UOp range = sharing_.ScannedBy(u, f_.roots[r])) f_.roots[r].scanned = range;
  }

  int32_t PartOf(UOp u) const {
    const auto& parts = options_.constraints->parts;
    const auto it = parts.find(u.id());
    return it == parts.end() ? -1 : it->second;
  }

  bool Alone(UOp u) const { return options_.constraints->alone.contains(u.id()); }
  bool Forced(UOp u) const {
    return must_realise_[Position(u)] || options_.constraints->realise.contains(u.id());
  }

  absl::Status VisitStore(UOp store) {
    const UOp value = store.src(1);
    const Shape shape = *f_.at(value).shape;
    const UOp base = f_.at(store.src(0)).base;
    Output out;
    out.node = store;
    out.value = value;
    out.storage = f_.slot_storage.at(base.slot());
    const int32_t device = f_.storages[static_cast<size_t>(out.storage)].device;
    const int32_t value_device = f_.at(value).device;
    if (value_device >= 0 && value_device != device) {
      return absl::InvalidArgumentError(
          Cat("STORE of a value on ", f_.devices[static_cast<size_t>(value_device)],
              " into a buffer on ", f_.devices[static_cast<size_t>(device)],
              "; a COPY moves it there"));
    }
    Candidate c;
    c.shape = shape;
    c.value = value;
    c.storage = out.storage;
    c.device = device;
    for (UOp after : afters_[Position(store)]) {
      const NodeInfo& info = f_.at(after);
      const bool forwards = f_.MaybeOnlyStore(after) == store;
      for (const Demand& d : info.demands) c.demands.push_back({&d, forwards});
      for (uint32_t r : FollowersOf(after)) c.followers.push_back(r);
    }
    int32_t found = Alone(store) ? -1 : sharing_.Find(c);
    const bool joins = found >= 0;
    const uint32_t r = joins ? static_cast<uint32_t>(found) : new_roots_.Make(store, shape, device);
    if (Alone(store)) f_.roots[r].alone = true;
    // The element of the storage that is written: follow the movement ops of the target.
    const Access* whole = new_roots_.Whole(r, shape);
    out.access = whole;
    UOp target = store.src(0);
    out.covers = true;
    while (target != base) {
      if (target.Is(Op::AFTER)) {
        // The STOREs of the AFTERs below `target` run before its own.
        out.after.push_back(target);
        followers_[Position(target)].push_back(r);
        target = f_.at(target).under;
        continue;
      } else if (target.Is(OpSet{Op::EXPAND, Op::PAD})) {
        return absl::InvalidArgumentError(
            Cat("STORE through ", ir::Name(target.op()),
                ": the elements of its target are not distinct elements of a buffer"));
      } else {
        out.access = accesses_.OfSource(target, out.access);
        out.covers = false;
      }
      target = target.src(0);
    }
    out.sole = out.covers && uses_of_slot_[base.slot()] == 1;
    out.demand = Ask(value, whole, r, f_.roots[r].loops, UOp());
    const auto number = static_cast<uint32_t>(f_.roots[r].outputs.size());
    f_.stores[store.id()] = {r, number};
    f_.roots[r].outputs.push_back(std::move(out));
    NoteScan(r, value);
    sharing_.Add(r, c);
    return absl::OkStatus();
  }

  void Visit(UOp u) {
    const NodeInfo& info = f_.at(u);
    if (Forced(u) || costs_.EndsInLanes(u) || tiled_products_.MustWrite(u)) return Realise(u, true);
    if (const int32_t part = PartOf(u); part >= 0) return Realise(u, false, part);
    // What is stored in another shape than the sum has: then the others load that.
    if (u.Is(Op::RESHAPE) && info.demands.size() > 1 && Rounds(u.src(0)) &&
        LiveInSlot(u, CandidateOf(u, -1)))
      return;
    double trips = costs_.Trips(u);
    if (trips > 0 && tiled_products_.IsBesideTiles(u)) trips = 0;
    const double realised = costs_.OfRealising(info, trips);
    const bool must = MustRealise(u) || is_copied_[Position(u)];
    // Two kernels, or two loops of one, may add up in two orders: what is computed for several uses
    // would have two values.
    const bool once = info.demands.size() > 1 && Rounds(u);
    const bool at_once = must || once || RealiseCosts::IsCrowded(u, info);
    const bool realise = (at_once || trips * info.work > realised) && !OnlyStored(u);
    for (const bool may_cut : {true, false}) {
      if (must) break;
      const auto plan = staging_.Plan(u, trips, may_cut);
      if (!plan || (realise && plan->cost >= realised)) break;
      if (plan->cuts.empty()) return StageValue(u, *plan);
      for (const RangeCut& cut : plan->cuts) WantCut(f_.roots[info.demands[0].root], cut);
    }
    if (realise && (at_once || !reduce_cuts_.Want(u))) return Realise(u, false);
    for (uint32_t k = 0; k < f_.at(u).demands.size() && !ctx_.Interrupted(4); ++k) Propagate(u, k);
  }

  // Records a cut for the next attempt.
  void WantCut(const Root& root, const RangeCut& cut) {
    if (root.scanned) return;
    size_t next = 0;
    for (uint32_t axis = 0; axis < root.n_axes(); ++axis) {
      // The ranges of this axis. An axis spans several ranges only if its size is a constant.
      const UOp size = root.axis(axis).size;
      int64_t stride = size.Is(Op::CONST) ? size.const_int() : 0;
      do {
        const UOp range = root.ranges[next++];
        const int64_t n = stride > 0 ? range.src(0).const_int() : 0;
        if (n > 0) stride /= n;
        if (range != cut.range) continue;
        for (const int64_t at : {cut.inner, cut.outer}) {
          if (at > 1 && at < n) f_.cuts.push_back({root.outputs[0].node.id(), axis, stride * at});
        }
        return;
      } while (stride > 1);
    }
  }

  void StageValue(UOp u, const StagePlan& plan) {
    const Demand& first = f_.at(u).demands[0];
    const uint32_t r = first.root;
    IndexList index(first.access->index.begin(), first.access->index.end());
    const Shape shape = *f_.at(u).shape;
    std::vector<UOp> loops(plan.loops.begin(), plan.loops.end());
    StagedValue value;
    value.axes.assign(plan.axes.begin(), plan.axes.end());
    for (size_t a : plan.axes) {
      index[a] = ir::Range(ctx_, shape[a], f_.roots[r].next_range++, AxisType::REDUCE);
      value.ranges.push_back(index[a]);
      loops.push_back(index[a]);
      value.dims.push_back(static_cast<int64_t>(ctx_.BoundsOf(shape[a]).max));
    }
    f_.loops.push_back(std::move(loops));
    Root& root = f_.roots[r];
    root.cached_bytes += plan.cached_bytes;
    root.staged_bytes += plan.bytes;
    for (UOp range : plan.loops) root.staged_ranges |= UsedRanges::Bit(range);
    value.demand = Ask(u, accesses_.At(index, ctx_.Bool(true)), r,
                       static_cast<uint32_t>(f_.loops.size() - 1), UOp());
    const uint32_t k = value.demand;
    NodeInfo& mine = f_.at(u);
    mine.demands[k].fills = true;
    mine.staged = static_cast<int32_t>(f_.staged.size());
    f_.staged.push_back(std::move(value));
    Propagate(u, k);
  }

  // True if the only demand of u is a STORE of all of u. Then u needs no temporary: the STORE
  // writes it.
  bool OnlyStored(UOp u) {
    const NodeInfo& info = f_.at(u);
    if (info.demands.size() != 1 || !FollowersOf(u).empty()) return false;
    const int32_t o = StoredBy(u, 0);
    if (o < 0) return false;
    if (!IsTransfer(u)) return true;
    // A transfer can write directly into the slot.
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

  Candidate CandidateOf(UOp u, int32_t part) const {
    const NodeInfo& info = f_.at(u);
    Candidate c;
    c.shape = *info.shape;
    c.value = u;
    c.device = info.device < 0 ? kDefaultDevice : info.device;
    c.part = part;
    for (const Demand& d : info.demands) c.demands.push_back({&d, true});
    c.followers.assign(FollowersOf(u).begin(), FollowersOf(u).end());
    return c;
  }

  void Realise(UOp u, bool forced, int32_t part = -1) {
    Candidate c = CandidateOf(u, part);
    const int32_t device = c.device;
    const bool transfer = IsTransfer(u), alone = forced || transfer || Alone(u);
    if (!alone && LiveInSlot(u, c)) return;
    const int32_t found = alone ? -1 : sharing_.Find(c);
    const uint32_t r =
        found >= 0 ? static_cast<uint32_t>(found) : new_roots_.Make(u, c.shape, device);
    if (alone) f_.roots[r].alone = true;
    f_.roots[r].part = part;
    Output out;
    out.node = out.value = u;
    out.storage = NewTemporary(u, device);
    out.access = new_roots_.Whole(r, c.shape);
    if (!transfer) out.demand = Ask(u, out.access, r, f_.roots[r].loops, UOp());
    NodeInfo& mine = f_.at(u);  // Ask may have moved the demands
    mine.realised = static_cast<int32_t>(r);
    mine.output = static_cast<uint32_t>(f_.roots[r].outputs.size());
    f_.roots[r].outputs.push_back(std::move(out));
    NoteScan(r, u);
    // Ask may have moved the demands that `c` points to.
    c.demands.clear();
    for (const Demand& d : mine.demands) c.demands.push_back({&d, true});
    sharing_.Add(r, c);
    if (transfer) return MakeCopy(r, u);
    PropagateOwn(u);
  }

  // Propagates the demands of u that are computed although u is realised: those of the root that
  // writes u, and those that read the buffer under u in another state.
  void PropagateOwn(UOp u) {
    for (uint32_t k = 0; k < f_.at(u).demands.size() && !ctx_.Interrupted(); ++k) {
      const Demand& d = f_.at(u).demands[k];
      if (d.after || d.root == static_cast<uint32_t>(f_.at(u).realised)) Propagate(u, k);
    }
  }

  // If a STORE writes all of u into a slot that nothing else uses, the other consumers of u load it
  // from that slot. False if there is no such STORE.
  bool LiveInSlot(UOp u, const Candidate& c) {
    for (uint32_t k = 0; k < f_.at(u).demands.size(); ++k) {
      const int32_t o = StoredBy(u, k);
      const uint32_t r = f_.at(u).demands[k].root;
      if (o < 0 || !f_.roots[r].outputs[static_cast<size_t>(o)].sole || !sharing_.Fits(r, c))
        continue;
      NodeInfo& info = f_.at(u);
      info.realised = static_cast<int32_t>(r);
      info.output = static_cast<uint32_t>(o);
      sharing_.Add(r, c);
      PropagateOwn(u);
      return true;
    }
    return false;
  }

  // Turns root r into a copy. Its only output is the COPY u, or a STORE of u. A copy reads one run
  // of consecutive elements, so its source must be in memory, or such a run of a value in memory.
  void MakeCopy(uint32_t r, UOp u) {
    Root& root = f_.roots[r];
    root.is_copy = true;
    root.alone = true;
    UOp source = u.src(0);
    while (source.Is(Op::RESHAPE) && KeepsMemory(ctx_, source)) source = source.src(0);
    const auto [base, from] = RunOf(ctx_, source);
    if (base != source && (IsInMemory(base) || MustRealise(base) || f_.at(base).in_memory)) {
      source = base;
      root.copy_from = from;
      if (!IsInMemory(base)) is_copied_[Position(base)] = true;
    } else if (!IsInMemory(source)) {
      must_realise_[Position(source)] = true;
    }
    root.outputs[0].value = source;
    followers_[Position(source)].push_back(r);
  }

  // Makes the demands on the sources of u that demand k needs. Ask may move demands, so no
  // reference to one is kept across it.
  void Propagate(UOp u, uint32_t k) {
    if (IsTransfer(u)) return MakeCopy(f_.at(u).demands[k].root, u);  // see OnlyStored
    Demand d = f_.at(u).demands[k];
    absl::InlinedVector<uint32_t, 3> sources;
    auto ask = [&](UOp s, const Access* access, uint32_t loops, UOp after) {
      sources.push_back(Ask(s, access, d.root, loops, after));
    };
    if (u.Is(ir::kMovementOps)) {
      ask(u.src(0), accesses_.OfSource(u, d.access), d.loops, d.after);
    } else if (u.Is(Op::AFTER)) {
      ask(f_.at(u).under, d.access, d.loops, d.after ? d.after : u);
    } else if (u.Is(Op::REDUCE)) {
      IndexList index(d.access->index.begin(), d.access->index.end());
      const auto needed = costs_.NeededLoops(d);
      std::vector<UOp> loops;
      loops.reserve(needed.size() + u.reduce_axes().size());
      loops.assign(needed.begin(), needed.end());
      d.reduce_ranges.reserve(u.reduce_axes().size());
      const Shape in = *f_.at(u.src(0)).shape;
      const Picks& picks = *options_.picks;
      for (int64_t a : u.reduce_axes()) {
        const UOp size = in[static_cast<size_t>(a)];
        if (size.IsConstInt(1)) {
          index[static_cast<size_t>(a)] = ctx_.Idx(0);
          continue;
        }
        const size_t first = d.reduce_ranges.size();
        index[static_cast<size_t>(a)] = reduce_cuts_.MakeLoops(u, a, size, d.root, d.reduce_ranges);
        if (picks.Collapses(Position(u), in.size(), a)) picked_.insert(d.reduce_ranges[first].id());
      }
      loops.insert(loops.end(), d.reduce_ranges.begin(), d.reduce_ranges.end());
      f_.loops.push_back(std::move(loops));
      staging_.NoteReduce(u);
      ask(u.src(0), accesses_.At(index, d.access->gate), static_cast<uint32_t>(f_.loops.size() - 1),
          d.after);
    } else if (u.Is(Op::STACK)) {
      const UOp first = d.access->index[0];
      for (size_t i = 0; i < u.n_src(); ++i) {
        const UOp here = ir::Alu(ctx_, Op::CMPEQ, {first, ctx_.Idx(static_cast<int64_t>(i))});
        const UOp gate = ir::And(ctx_, d.access->gate, here);
        ask(u.src(i), accesses_.At(d.access->index.subspan(1), gate), d.loops, d.after);
      }
    } else {
      const NodeInfo& out = f_.at(u);
      for (UOp s : ValueSources(u)) {
        const NodeInfo& in = f_.at(s);
        ask(s, accesses_.OfOperand(in.shape, out.shape, in.elements < out.elements, d.access),
            d.loops, d.after);
      }
    }
    Demand& stored = f_.at(u).demands[k];
    stored.sources = static_cast<uint32_t>(f_.sources.size());
    f_.sources.insert(f_.sources.end(), sources.begin(), sources.end());
    stored.reduce_ranges = std::move(d.reduce_ranges);
  }

  UOpContext& ctx_;
  Accesses& accesses_;
  const FusionOptions& options_;
  Fusion& f_;
  NewRoots new_roots_;
  Sharing sharing_;
  std::vector<bool> must_realise_;  // by position: sources of copies
  std::vector<bool> is_copied_;     // by position: nodes that a copy reads a run of
  absl::flat_hash_map<uint32_t, Followers> followers_;  // by position: roots that run after it
  absl::flat_hash_map<uint32_t, absl::InlinedVector<UOp, 1>> afters_;  // by position of a STORE
  absl::flat_hash_map<int64_t, int> uses_of_slot_;
  absl::flat_hash_set<uint32_t> picked_;  // ids of ranges that picking sums lose (picks.h)
  RealiseCosts costs_;
  ReduceCuts reduce_cuts_;
  Staging staging_;
  TiledProducts tiled_products_;
  // (position, root, access, after) -> number of the demand, after the first kFewDemands of a node.
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, const Access*, const ir::Node*>, uint32_t>
      asked_;
  int64_t next_temporary_ = 0;
};

}  // namespace

UOp Fusion::MaybeOnlyStore(UOp u) const {
  if (!u.Is(Op::AFTER) || u.n_src() != 2) return UOp();
  const UOp store = u.src(1);
  if (!store.Is(Op::STORE) || at(store.src(0)).base != at(u.src(0)).base) return UOp();
  if (!at(store.src(0)).is_whole_base) return UOp();  // the STORE writes a view of the slot
  return u.src(0).Is(Op::PARAM) || u.src(0) == store.src(0) ? store : UOp();
}

void Constraints::AddCuts(const Fusion& attempt) {
  auto divides = [](const AxisCut& a, const AxisCut& b) {
    return a.node != b.node || a.axis != b.axis || b.stride % a.stride == 0;
  };
  const auto add = [&](const std::vector<AxisCut>& more, std::set<AxisCut>& all) {
    for (const AxisCut& cut : more) {
      const auto next = all.lower_bound(cut);
      if (next != all.end() && !divides(cut, *next)) continue;
      if (next != all.begin() && !divides(*std::prev(next), cut)) continue;
      all.insert(next, cut);
    }
  };
  add(attempt.cuts, cuts);
  add(attempt.reduce_cuts, reduce_cuts);
}

void Fusion::Restart() {
  // resize() keeps the memory for the next attempt, unlike clear().
  for (NodeInfo& node : info) {
    node.demands.resize(0);
    node.realised = node.staged = -1;
    node.output = 0;
  }
  roots.clear();
  loops.clear();
  sources.clear();
  staged.clear();
  cuts.clear();
  reduce_cuts.clear();
  stores.clear();
  std::erase_if(storages, [](const Storage& s) { return s.kind == Storage::kTemporary; });
}

absl::Status Fuse(UOpContext& ctx, Accesses& accesses, const FusionOptions& options, Fusion& f) {
  return Fuser(ctx, accesses, options, f).Run();
}

}  // namespace uopd::schedule
