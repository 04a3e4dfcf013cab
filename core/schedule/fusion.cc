// SPDX-License-Identifier: MIT
#include "core/schedule/fusion.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/spec.h"

namespace uopd::schedule {
namespace {

using ir::AxisType;
using ir::Dims;
using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;
using ir::UOpContext;

// Operations of one element of an op, relative to an addition.
double OpWork(UOp u) {
  switch (u.op()) {
    case Op::EXP2:
    case Op::LOG2:
      return 8;
    case Op::SIN:
    case Op::POW:
      return 20;
    case Op::SQRT:
    case Op::RECIPROCAL:
    case Op::FDIV:
    case Op::CDIV:
    case Op::CMOD:
    case Op::FLOORDIV:
    case Op::FLOORMOD:
      return 4;
    case Op::THREEFRY:
      return 80;
    default:
      return u.Is(ir::kElementwiseOps) ? 1 : 0;
  }
}

class Fuser {
 public:
  Fuser(UOpContext& ctx, rewrite::Rewriter& simplify, const FusionOptions& options)
      : ctx_(ctx), simplify_(simplify), options_(options) {}

  absl::StatusOr<Fusion> Run(UOp sink) {
    f_.order = ir::Toposort(ctx_, sink);
    f_.info.resize(f_.order.size());
    for (uint32_t i = 0; i < f_.order.size(); ++i) f_.position[f_.order[i].id()] = i;
    UOPD_TRY(Describe());
    for (size_t i = f_.order.size(); i-- > 0;) {
      const UOp u = f_.order[i];
      if (u.Is(Op::STORE)) {
        UOPD_TRY(VisitStore(u));
      } else if (!f_.info[i].demands.empty() || must_realise_.contains(u.id())) {
        UOPD_TRY(Visit(u));
      }
    }
    return std::move(f_);
  }

 private:
  // Bottom-up facts: storages of slots, devices, work per element.
  absl::Status Describe() {
    devices_.resize(f_.order.size());
    for (size_t i = 0; i < f_.order.size(); ++i) {
      const UOp u = f_.order[i];
      if (u.Is(Op::PARAM)) {
        const int32_t id =
            NewStorage(Storage::kArgument, u.slot(), u,
                       u.text().empty() ? options_.default_device : std::string(u.text()));
        f_.slot_storage[u.slot()] = id;
        devices_[i] = f_.storages[id].device;
      } else if (u.Is(Op::COPY)) {
        devices_[i] = u.text();
      } else {
        for (UOp s : ValueSources(u)) {
          const std::string& d = devices_[f_.position.at(s.id())];
          if (d.empty() || u.Is(Op::STORE)) continue;
          if (!devices_[i].empty() && devices_[i] != d) {
            return absl::InvalidArgumentError(Cat(ir::Name(u.op()), " mixes values on ",
                                                  devices_[i], " and ", d,
                                                  "; a COPY moves them to one device"));
          }
          devices_[i] = d;
        }
      }
      const double elements = Elements(u);
      double total = elements * OpWork(u);
      for (UOp s : ValueSources(u)) total += f_.at(s).work * Elements(s);
      if (u.Is(Op::REDUCE)) total += Elements(u.src(0));
      f_.info[i].work = elements > 0 ? total / elements : 0;
      if (u.Is(OpSet{Op::PARAM, Op::CONTIGUOUS, Op::COPY, Op::AFTER})) f_.info[i].work = 0;
    }
    return absl::OkStatus();
  }

  double Elements(UOp u) {
    const Shape* shape = ctx_.ShapeOf(u);
    if (shape == nullptr) return 0;
    double n = 1;
    for (int64_t d : ir::MaxDims(ctx_, *shape)) n *= static_cast<double>(d);
    return n;
  }

  int32_t NewStorage(Storage::Kind kind, int64_t index, UOp u, std::string device) {
    f_.storages.push_back(
        {kind, index, u.dtype(), ir::MaxDims(ctx_, *ctx_.ShapeOf(u)), std::move(device)});
    return static_cast<int32_t>(f_.storages.size() - 1);
  }

  // A root with fresh ranges over the shape of `value`; fills ranges, index of value, loops.
  uint32_t NewRoot(UOp node, UOp value, IndexList& index) {
    Root root;
    root.node = node, root.value = value, root.gate = ctx_.Bool(true);
    for (UOp d : *ctx_.ShapeOf(value)) {
      if (d.IsConstInt(1)) {
        index.push_back(ctx_.Idx(0));
      } else {
        root.ranges.push_back(ir::Range(ctx_, d, next_range_++, AxisType::LOOP));
        index.push_back(root.ranges.back());
      }
    }
    root.loops = static_cast<uint32_t>(f_.loops.size());
    f_.loops.push_back(root.ranges);
    f_.roots.push_back(std::move(root));
    return static_cast<uint32_t>(f_.roots.size() - 1);
  }

  absl::Status VisitStore(UOp store) {
    const UOp value = store.src(1);
    IndexList index;
    const uint32_t r = NewRoot(store, value, index);
    const UOp base = ir::MaybeBaseOf(store.src(0));
    Root& root = f_.roots[r];
    root.storage = f_.slot_storage.at(base.slot());
    root.device = f_.storages[root.storage].device;
    const std::string& value_device = devices_[f_.position.at(value.id())];
    if (!value_device.empty() && value_device != root.device) {
      return absl::InvalidArgumentError(
          Cat("STORE of a value on ", value_device, " into a buffer on ", root.device));
    }
    // Where the element goes: the target's movement ops, from the outside in.
    IndexList target_index = index;
    UOp target = store.src(0);
    while (target != base) {
      if (target.Is(Op::AFTER)) {
        root.after.push_back(target);
      } else if (target.Is(OpSet{Op::EXPAND, Op::PAD})) {
        return absl::InvalidArgumentError(
            Cat("STORE through ", ir::Name(target.op()), ": its elements are no distinct memory"));
      } else {
        target_index = SourceIndex(ctx_, target, target_index, root.gate);
      }
      target = target.src(0);
    }
    root.index = Simplified(target_index);
    root.demand = Ask(value, {index, ctx_.Bool(true), r, root.loops, UOp(), {}, {}});
    return absl::OkStatus();
  }

  // Records a demand, or finds the equal one. A constant has no demands worth telling apart, but
  // lowering wants an index.
  uint32_t Ask(UOp u, Demand d) {
    for (UOp& i : d.index) i = simplify_.Run(i);
    d.gate = simplify_.Run(d.gate);
    auto& demands = f_.at(u).demands;
    for (uint32_t k = 0; k < demands.size(); ++k) {
      const Demand& e = demands[k];
      if (e.root == d.root && e.gate == d.gate && e.after == d.after && e.index == d.index)
        return k;
    }
    demands.push_back(std::move(d));
    return static_cast<uint32_t>(demands.size() - 1);
  }

  IndexList Simplified(IndexList index) {
    for (UOp& i : index) i = simplify_.Run(i);
    return index;
  }

  bool Uses(UOp expression, UOp range) { return ir::Reaches(ctx_, expression, range); }

  // The loops around a demand from which its evaluation cannot be moved out: down to the innermost
  // one that it uses.
  std::span<const UOp> NeededLoops(const Demand& d) {
    const std::vector<UOp>& loops = f_.loops[d.loops];
    size_t needed = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      bool used = Uses(d.gate, loops[i]);
      for (UOp x : d.index) used = used || Uses(x, loops[i]);
      if (used) needed = i + 1;
    }
    return std::span(loops).first(needed);
  }

  double Trips(const Demand& d) {
    double trips = 1;
    for (UOp range : NeededLoops(d)) trips *= static_cast<double>(ctx_.BoundsOf(range.src(0)).max);
    return trips;
  }

  bool ShouldRealise(UOp u, const NodeInfo& info) {
    if (u.Is(OpSet{Op::CONTIGUOUS, Op::COPY})) return true;
    if (!u.Is(ir::kElementwiseOps) && !u.Is(Op::REDUCE)) return false;
    if (info.work == 0) return false;
    const double elements = std::max(1.0, Elements(u));
    double trips = 0;
    for (const Demand& d : info.demands) trips += Trips(d);
    return (trips - elements) * info.work > options_.realise_cost * elements;
  }

  bool Forced(UOp u) const {
    return must_realise_.contains(u.id()) ||
           (options_.force != nullptr && options_.force->contains(u.id()));
  }

  absl::Status Visit(UOp u) {
    NodeInfo& info = f_.at(u);
    // Nothing is realised just to be stored: the only demand is a whole STORE.
    const bool only_stored =
        info.demands.size() == 1 && IsWholeRoot(info.demands[0]) && !u.Is(Op::COPY);
    if (Forced(u) || (ShouldRealise(u, info) && !only_stored)) return Realise(u);
    for (uint32_t k = 0; k < f_.at(u).demands.size(); ++k) UOPD_TRY(Propagate(u, k));
    return absl::OkStatus();
  }

  // True if a demand is for every element, once, by the root that stores it.
  bool IsWholeRoot(const Demand& d) {
    const Root& root = f_.roots[d.root];
    return root.node.Is(Op::STORE) && d.gate.IsConstInt(1) && d.loops == root.loops &&
           d.index == WholeIndex(root);
  }
  IndexList WholeIndex(const Root& root) {
    IndexList index;
    size_t next = 0;
    for (UOp d : *ctx_.ShapeOf(root.value))
      index.push_back(d.IsConstInt(1) ? ctx_.Idx(0) : root.ranges[next++]);
    return index;
  }

  absl::Status Realise(UOp u) {
    std::string device = devices_[f_.position.at(u.id())];
    if (device.empty()) device = options_.default_device;
    const int32_t storage = NewStorage(Storage::kTemporary, next_temporary_++, u, device);
    const bool is_copy = u.Is(Op::COPY);
    const UOp value = is_copy || u.Is(Op::CONTIGUOUS) ? u.src(0) : u;
    IndexList index;
    const uint32_t r = NewRoot(u, value, index);
    Root& root = f_.roots[r];
    root.storage = storage, root.index = index, root.device = device, root.is_copy = is_copy;
    f_.at(u).realised = static_cast<int32_t>(r);
    if (is_copy) {
      // The source must be whole in memory; its consumer is the copy.
      if (!value.Is(Op::PARAM)) must_realise_.insert(value.id());
      root.demand = Ask(value, {index, ctx_.Bool(true), r, root.loops, UOp(), {}, {}});
      return absl::OkStatus();
    }
    Demand d = {index, ctx_.Bool(true), r, root.loops, UOp(), {}, {}};
    if (value != u) {
      root.demand = Ask(value, std::move(d));
      return absl::OkStatus();
    }
    // The node's own expression: one demand more, which lowering computes while it loads for all
    // others.
    auto& demands = f_.at(u).demands;
    if (u.Is(Op::AFTER)) d.after = u;
    demands.push_back(std::move(d));
    f_.roots[r].demand = static_cast<uint32_t>(demands.size() - 1);
    return Propagate(u, f_.roots[r].demand);
  }

  // Turns demand k of u into demands on its sources. References into demands do not survive Ask.
  absl::Status Propagate(UOp u, uint32_t k) {
    Demand d = f_.at(u).demands[k];
    std::vector<uint32_t> sources;
    auto ask = [&](UOp s, IndexList index, UOp gate, uint32_t loops, UOp after) {
      sources.push_back(Ask(s, {std::move(index), gate, d.root, loops, after, {}, {}}));
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
      for (int64_t a : u.reduce_axes()) {
        const UOp size = in[static_cast<size_t>(a)];
        if (size.IsConstInt(1)) {
          index[static_cast<size_t>(a)] = ctx_.Idx(0);
          continue;
        }
        const UOp range = ir::Range(ctx_, size, next_range_++, AxisType::REDUCE);
        index[static_cast<size_t>(a)] = range;
        d.reduce_ranges.push_back(range);
        loops.push_back(range);
      }
      f_.loops.push_back(std::move(loops));
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
        for (size_t i = 0; i < in.size(); ++i) {
          index.push_back(in[i].IsConstInt(1) ? ctx_.Idx(0)
                                              : d.index[d.index.size() - in.size() + i]);
        }
        ask(s, std::move(index), d.gate, d.loops, d.after);
      }
    }
    Demand& stored = f_.at(u).demands[k];
    stored.sources = std::move(sources);
    stored.reduce_ranges = std::move(d.reduce_ranges);
    return absl::OkStatus();
  }

  UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  const FusionOptions& options_;
  Fusion f_;
  std::vector<std::string> devices_;  // by position; empty: anywhere
  absl::flat_hash_set<uint32_t> must_realise_;
  int64_t next_range_ = 0;
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

absl::StatusOr<Fusion> Fuse(UOpContext& ctx, rewrite::Rewriter& simplify, UOp sink,
                            const FusionOptions& options) {
  return Fuser(ctx, simplify, options).Run(sink);
}

}  // namespace uopd::schedule
