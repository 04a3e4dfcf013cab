// SPDX-License-Identifier: MIT
#include "core/schedule/multi/multi_device.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "core/ir/tables/node_index.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/multi/pieces.h"

namespace uopd::schedule {
namespace {

using ir::Layout;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

// The base of a view or AFTER: the PARAM or BUFFER below it, as ir::MaybeBaseOf finds it.
//
// Memoised for every node on the way, so that a chain of n AFTERs costs n steps in all, not n for
// each of its nodes.
class Bases {
 public:
  explicit Bases(const ir::UOpContext& ctx) : ctx_(ctx), known_(ctx.size()) {}

  // Null: u is no view of a PARAM or BUFFER.
  ir::UOp MaybeOf(ir::UOp u) {
    if (ctx_.size() > known_.ids()) known_.Grow(ctx_.size() + ctx_.size() / 2);
    ir::UOp end = u;
    while (IsOnTheWay(end) && known_.Get(end) == ir::NodeIndex::kNone) end = end.src(0);
    const uint32_t base = IsOnTheWay(end) ? known_.Get(end) : end.id();
    for (ir::UOp v = u; v != end; v = v.src(0)) known_.Set(v, base);
    return ir::MaybeBaseOf(ctx_.node(base));
  }

 private:
  static bool IsOnTheWay(ir::UOp u) { return u.Is(ir::kMovementOps) || u.Is(ir::Op::AFTER); }

  const ir::UOpContext& ctx_;
  ir::NodeIndex known_;  // id of the first node below that is no movement op and no AFTER
};

class Resolver {
 public:
  Resolver(UOpContext& ctx, const MultiDeviceOptions& options)
      : ctx_(ctx), options_(options), bases_(ctx) {}

  absl::StatusOr<UOp> Run(const std::vector<UOp>& order) {
    values_.resize(ctx_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      if (ctx_.Interrupted(16)) return ctx_.CheckInterrupt();
      const UOp u = order[i];
      absl::StatusOr<Pieces> made = Visit(u);
      if (!made.ok()) {
        return WithNode(made.status(), {static_cast<int64_t>(i), ir::PrintLine(u, order)});
      }
      values_[u.id()] = *std::move(made);
    }
    return values_[order.back().id()].nodes[0];
  }

 private:
  const Pieces& at(UOp u) const { return values_[u.id()]; }

  absl::StatusOr<Pieces> Visit(UOp u) {
    if (u.Is(Op::SINK)) return Pieces{{}, {Sink(u)}};
    std::vector<const Layout*> layouts;
    bool pieces = u.Is(Op::MULTI);
    for (UOp s : u.srcs()) {
      layouts.push_back(&at(s).layout);
      pieces |= at(s).layout.pieces;
    }
    UOPD_ASSIGN(const ir::LayoutRule rule, ir::RuleOf(ctx_, u, layouts, options_.default_device));
    Pieces out{rule.result, {}};
    if (!pieces) {
      ir::SymbolicDims srcs;
      for (UOp s : u.srcs()) srcs.push_back(at(s).nodes[0]);
      out.nodes = {ctx_.WithSources(u, srcs)};
      return out;
    }
    if (u.Is(Op::AFTER)) {
      for (UOp x : at(u.src(0)).nodes) out.nodes.push_back(After(u, x));
      return out;
    }
    std::vector<Pieces> srcs;
    for (size_t i = 0; i < u.n_src(); ++i)
      srcs.push_back(Reshard(ctx_, at(u.src(i)), rule.sources[i]));
    if (u.Is(Op::COPY)) {
      out.nodes = std::move(srcs[0].nodes);
    } else if (u.Is(Op::MULTI)) {
      Collect(u, srcs, out);
    } else if (u.Is(Op::SHRINK) && srcs[0].layout.sharded() && out.layout.sharded()) {
      Shrink(u, srcs[0], out);
    } else {
      if (u.Is(Op::STORE)) UOPD_TRY(CheckTarget(srcs[0]));
      for (size_t i = 0; i < srcs[0].nodes.size() || i < out.layout.devices.size(); ++i)
        out.nodes.push_back(Piece(u, srcs, out.layout, i));
      const bool summed = u.Is(Op::REDUCE) && srcs[0].layout.sharded() && !out.layout.sharded();
      if (summed) return AllReduce(ctx_, u.reduce_op(), out, options_.ring_threshold);
      if (Mirrored(u, srcs[0].layout)) std::reverse(out.nodes.begin(), out.nodes.end());
    }
    return out;
  }

  static bool Mirrored(UOp u, const Layout& from) {
    return u.Is(Op::FLIP) && from.sharded() &&
           std::find(u.ints().begin(), u.ints().end(), from.axis) != u.ints().end();
  }

  // The SINK of all pieces of its sources. A STORE into a part of a value follows earlier STOREs
  // into that value. The pieces that only the earlier ones write are no sources of its own pieces,
  // so those STOREs become roots of their own.
  UOp Sink(UOp sink) {
    std::vector<UOp> roots;
    for (UOp r : sink.srcs()) {
      const std::vector<UOp>& own = at(r).nodes;
      roots.insert(roots.end(), own.begin(), own.end());
      if (!r.Is(Op::STORE)) continue;
      UOp target = r.src(0);
      while (target.Is(ir::kMovementOps)) target = target.src(0);
      if (!target.Is(Op::AFTER)) continue;
      for (UOp x : at(target).nodes) {
        const UOp base = bases_.MaybeOf(x);
        const bool follows = std::any_of(own.begin(), own.end(), [&](UOp store) {
          return bases_.MaybeOf(store.src(0)) == base;
        });
        if (x.Is(Op::AFTER) && !follows)
          roots.insert(roots.end(), x.srcs().begin() + 1, x.srcs().end());
      }
    }
    return ctx_.Make(Op::SINK, ir::Dtype::Void, roots, sink.arg());
  }

  // Piece x of the AFTER's value, after those STOREs that write the buffer of this piece.
  UOp After(UOp after, UOp x) {
    const UOp base = bases_.MaybeOf(x);
    std::vector<UOp> stores;
    for (UOp s : after.srcs().subspan(1)) {
      for (UOp store : at(s).nodes) {
        if (bases_.MaybeOf(store.src(0)) == base) stores.push_back(store);
      }
    }
    return stores.empty() ? x : ir::After(ctx_, x, stores);
  }

  // The pieces of a MULTI without those that have no elements; one stays if all have none.
  void Collect(UOp multi, const std::vector<Pieces>& srcs, Pieces& out) {
    const int64_t axis = out.layout.axis;
    for (size_t i = 0; i < srcs.size(); ++i) {
      const bool empty =
          axis >= 0 && (*ctx_.ShapeOf(multi.src(i)))[static_cast<size_t>(axis)].IsConstInt(0);
      const bool only = out.nodes.empty() && i + 1 == srcs.size();
      if (!empty || only) out.nodes.push_back(srcs[i].nodes[0]);
    }
  }

  // INVALID_ARGUMENT if a piece of a STORE's target is not a view of a buffer.
  absl::Status CheckTarget(const Pieces& target) {
    for (UOp x : target.nodes) {
      if (!bases_.MaybeOf(x)) {
        return absl::InvalidArgumentError(
            "STORE into a view of a MULTI that moves elements between its pieces");
      }
    }
    return absl::OkStatus();
  }

  // The shape of a piece: that of `node`, with the size of the piece along the axis of the layout.
  UOp Shaped(UOp node, const Layout& layout, size_t piece) {
    const ir::Shape whole = *ctx_.ShapeOf(node);
    ir::SymbolicDims dims(whole.begin(), whole.end());
    if (layout.sharded()) dims[static_cast<size_t>(layout.axis)] = ctx_.Idx(layout.sizes[piece]);
    return ir::ShapeArg(ctx_, dims);
  }

  void Shrink(UOp u, const Pieces& from, Pieces& out) {
    const auto axis = static_cast<size_t>(from.layout.axis);
    const auto starts = u.src(1).srcs();
    const int64_t start = starts[axis].const_int();
    const int64_t length = (*ctx_.ShapeOf(u))[axis].const_int();
    for (const ir::Overlap& o : ir::Overlaps(from.layout, start, length)) {
      ir::SymbolicDims at(starts.begin(), starts.end());
      at[axis] = ctx_.Idx(o.begin);
      out.nodes.push_back(ir::Shrink(ctx_, from.nodes[o.piece], ir::ShapeArg(ctx_, at),
                                     Shaped(u, out.layout, out.nodes.size())));
    }
  }

  // Piece i of u, computed from the i-th pieces of its sources.
  UOp Piece(UOp u, const std::vector<Pieces>& srcs, const Layout& layout, size_t i) {
    auto source = [&](size_t k) {
      const std::vector<UOp>& nodes = srcs[k].nodes;
      return nodes.size() == 1 ? nodes[0] : nodes[i];
    };
    const UOp x = source(0);
    if (u.Is(OpSet{Op::RESHAPE, Op::EXPAND})) {
      const UOp shape = Shaped(u, layout, i);
      return u.Is(Op::RESHAPE) ? ir::Reshape(ctx_, x, shape) : ir::Expand(ctx_, x, shape);
    }
    if (u.Is(Op::SHRINK)) return ir::Shrink(ctx_, x, u.src(1), u.src(2));
    if (u.Is(Op::PAD)) {
      ir::SymbolicDims before(u.src(1).srcs().begin(), u.src(1).srcs().end());
      if (layout.sharded() && i > 0) before[static_cast<size_t>(layout.axis)] = ctx_.Idx(0);
      return ir::Pad(ctx_, x, ir::ShapeArg(ctx_, before), Shaped(u, layout, i));
    }
    ir::SymbolicDims nodes;
    for (size_t k = 0; k < srcs.size(); ++k) nodes.push_back(source(k));
    return ctx_.Make(u.op(), u.dtype(), nodes, u.arg());
  }

  UOpContext& ctx_;
  const MultiDeviceOptions& options_;
  Bases bases_;
  std::vector<Pieces> values_;  // by id
};

}  // namespace

absl::StatusOr<UOp> ResolveMulti(UOpContext& ctx, const std::vector<UOp>& order,
                                 const MultiDeviceOptions& options) {
  const bool multi = std::any_of(order.begin(), order.end(), [](UOp u) { return u.Is(Op::MULTI); });
  if (!multi) return order.back();
  return Resolver(ctx, options).Run(order);
}

}  // namespace uopd::schedule
