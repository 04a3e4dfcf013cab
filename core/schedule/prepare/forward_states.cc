// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/forward_states.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// Limit of the movement ops that are made: kBaseMoves + kMovesPerNode * nodes of the graph.
constexpr size_t kMovesPerNode = 16, kBaseMoves = 1 << 20;

class Forwarder {
 public:
  explicit Forwarder(UOpContext& ctx) : ctx_(ctx), made_(ctx.size()) {}

  absl::StatusOr<UOp> Run(const std::vector<UOp>& order) {
    const size_t most = kBaseMoves + kMovesPerNode * order.size();
    std::vector<UOp> roots;
    for (UOp u : order) {
      if (ctx_.Interrupted()) return ctx_.CheckInterrupt();
      if (moves_ > most) {
        return absl::ResourceExhaustedError(
            Cat("computing the states of slots that are read after STOREs takes over ", most,
                " movement ops"));
      }
      if (u.Is(Op::SINK)) continue;
      Visit(u);
      // The new STOREs are in the order of the graph, also those into one slot.
      if (u.Is(Op::STORE)) roots.push_back(ir::Store(ctx_, at(u.src(0)).storage, at(u).value));
    }
    return ctx_.Make(Op::SINK, ir::Dtype::Void, roots, order.back().arg());
  }

 private:
  // What replaces a node of the graph.
  struct Made {
    UOp value;    // the value, without AFTERs; of a STORE: the value that it stores
    UOp storage;  // if the node is a view of a slot: the same view without AFTERs
    UOp state;    // if the node is a view of a slot: the value of the whole slot, in that state
    UOp base;     // the PARAM of that slot
  };
  Made& at(UOp u) { return made_[u.id()]; }

  void Visit(UOp u) {
    Made& out = at(u);
    if (u.Is(Op::STORE)) {
      out.value = at(u.src(1)).value;
      out.base = at(u.src(0)).base;
    } else if (u.Is(Op::AFTER)) {
      out = at(u.src(0));
      for (UOp store : u.srcs().subspan(1)) {
        if (at(store).base == out.base)
          out.state = Applied(at(store.src(0)).storage, at(store).value, out.state);
      }
      out.value = View(out.storage, out.state);
    } else {
      ir::SymbolicDims srcs;
      for (UOp s : u.srcs()) srcs.push_back(at(s).value);
      out.value = ctx_.WithSources(u, srcs);
      if (u.Is(Op::PARAM)) out.storage = out.state = out.base = out.value;
      if (!u.Is(ir::kMovementOps) || !at(u.src(0)).storage) return;
      const Made& under = at(u.src(0));
      srcs[0] = under.storage;
      out.storage = ctx_.WithSources(u, srcs);
      out.state = under.state;
      out.base = under.base;
    }
  }

  // The movement ops of a view of a slot, from the outermost to the one over the PARAM.
  static std::vector<UOp> WayOf(UOp storage) {
    std::vector<UOp> out;
    for (; storage.Is(ir::kMovementOps); storage = storage.src(0)) out.push_back(storage);
    return out;
  }

  // The same view of another value.
  UOp View(UOp storage, UOp x) {
    const std::vector<UOp> way = WayOf(storage);
    moves_ += way.size();
    for (size_t i = way.size(); i-- > 0;) {
      ir::SymbolicDims srcs(way[i].srcs().begin(), way[i].srcs().end());
      srcs[0] = x;
      x = ctx_.WithSources(way[i], srcs);
    }
    return x;
  }

  // The inverse of the view: x, which has the shape of the view, placed in a value of the slot's
  // shape. Elements outside of the view are zero.
  UOp Back(const std::vector<UOp>& way, UOp x) {
    moves_ += way.size();
    for (UOp u : way) x = ir::MovedBack(ctx_, x, u, ir::ShapeArg(ctx_, *ctx_.ShapeOf(u.src(0))));
    return x;
  }

  // The value of the whole slot after a STORE of `value` into the view.
  UOp Applied(UOp storage, UOp value, UOp state) {
    const std::vector<UOp> way = WayOf(storage);
    const UOp stored = Back(way, value);
    if (std::ranges::none_of(way, [](UOp u) { return u.Is(Op::SHRINK); })) return stored;
    const UOp all = ir::Expand(ctx_, ctx_.Bool(true), ir::ShapeArg(ctx_, *ctx_.ShapeOf(value)));
    return ir::Where(ctx_, Back(way, all), stored, state);
  }

  UOpContext& ctx_;
  std::vector<Made> made_;  // by id
  size_t moves_ = 0;
};

}  // namespace

absl::StatusOr<UOp> ForwardStates(UOpContext& ctx, const std::vector<UOp>& order) {
  return Forwarder(ctx).Run(order);
}

}  // namespace uopd::schedule
