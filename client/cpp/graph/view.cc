// SPDX-License-Identifier: MIT
#include "client/cpp/graph/view.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "client/cpp/graph/graph_state.h"
#include "core/ir/build.h"
#include "core/ir/tables/node_index.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

constexpr ir::OpSet kViews = {Op::RESHAPE, Op::PERMUTE, Op::FLIP, Op::SHRINK, Op::BITCAST};

// The inverse: x, which has the shape of the part, at its place in the shape of the whole, and
// zeros elsewhere.
UOp Placed(ir::UOpContext& ctx, UOp x, std::span<const UOp> steps, std::span<const UOp> shapes) {
  for (size_t i = 0; i < steps.size(); ++i) x = ir::MovedBack(ctx, x, steps[i], shapes[i]);
  return x;
}

// Whether a STORE should write the part. With pieces on several devices it must be known where the
// part lies. What is the whole in another shape is a new value of it.
bool CanBeStored(UOp whole, std::span<const UOp> steps) {
  if (std::ranges::any_of(steps, [](UOp u) { return u.Is(Op::PAD); })) return false;
  if (std::ranges::none_of(steps, [](UOp u) { return u.Is(Op::SHRINK); })) return false;
  const UOp stored = StoredBelow(whole);
  if (stored.Is(Op::BUFFER)) return true;
  if (!IsStored(stored)) return false;
  if (steps.size() != 1 || !steps[0].Is(Op::SHRINK)) return false;
  if (stored.ints().empty()) return true;
  const UOp starts = steps[0].src(1), sizes = steps[0].src(2);
  const auto axis = static_cast<size_t>(stored.ints()[0]);
  return starts.src(axis).Is(Op::CONST) && sizes.src(axis).Is(Op::CONST);
}

}  // namespace

bool MakesView(UOp u) { return u.Is(kViews) || (u.Is(Op::DETACH) && u.n_src() == 1); }

UOp PartOf(ir::UOpContext& ctx, UOp whole, std::span<const UOp> steps) {
  for (size_t i = steps.size(); i-- > 0;) {
    ir::SymbolicDims srcs(steps[i].srcs().begin(), steps[i].srcs().end());
    srcs[0] = whole;
    const ir::Dtype dtype = steps[i].Is(Op::BITCAST) ? steps[i].dtype() : whole.dtype();
    whole = ctx.Make(steps[i].op(), dtype, srcs, steps[i].arg(), steps[i].tag());
  }
  return whole;
}

UOp ReplaceValues(ir::UOpContext& ctx, UOp root, const ir::Substitution& map) {
  if (map.empty()) return root;
  const std::vector<UOp> order = ir::Toposort(ctx, std::span<const UOp>(&root, 1),
                                              [&](UOp u) { return !map.contains(u.id()); });
  ir::NodeIndex position(ctx.size());
  std::vector<UOp> done;  // by position
  done.reserve(order.size());
  const auto now = [&](UOp u) { return done[position[u]]; };
  ir::SymbolicDims srcs;
  for (UOp u : order) {
    UOp out = u;
    if (const auto it = map.find(u.id()); it != map.end()) {
      out = it->second;
    } else if (u.Is(Op::AFTER)) {
      const UOp whole = now(u.src(0)), value = now(u.src(1).src(1));
      if (whole != u.src(0) || value != u.src(1).src(1)) {
        // What a step is made with besides: positions and sizes, which are no values of tensors.
        const std::vector<UOp> steps = StepsOf(ctx, u, [](UOp s) { return s; });
        out = IsStored(StoredBelow(whole))
                  ? ir::After(ctx, whole, {ir::Store(ctx, PartOf(ctx, whole, steps), value)})
                  : Updated(ctx, whole, steps, value);
      }
    } else if (!u.Is(Op::STORE)) {  // which its AFTER replaces
      srcs.clear();
      bool changed = false;
      for (UOp s : u.srcs()) {
        srcs.push_back(now(s));
        changed |= srcs.back() != s;
      }
      if (changed) out = ctx.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
    }
    position.Set(u, static_cast<uint32_t>(done.size()));
    done.push_back(out);
  }
  return now(root);
}

UOp StoredBelow(UOp after) {
  while (after.Is(Op::AFTER)) after = after.src(0);
  return after;
}

UOp Updated(ir::UOpContext& ctx, UOp whole, std::span<const UOp> steps, UOp value) {
  // The shape that each step was taken from.
  std::vector<UOp> shapes(steps.size());
  UOp at = whole;
  for (size_t i = steps.size(); i-- > 0;) {
    shapes[i] = ir::ShapeArg(ctx, *ctx.ShapeOf(at));
    at = PartOf(ctx, at, steps.subspan(i, 1));
  }
  const UOp placed = Placed(ctx, value, steps, shapes);
  if (std::ranges::none_of(steps, [](UOp u) { return u.Is(Op::SHRINK); })) return placed;
  const UOp all = ir::Expand(ctx, ctx.Bool(true), ir::ShapeArg(ctx, *ctx.ShapeOf(value)));
  return ir::Where(ctx, Placed(ctx, all, steps, shapes), placed, whole);
}

UOp Written(ir::UOpContext& ctx, UOp whole, std::span<const UOp> all_steps, UOp value) {
  // Movements do the same to the bits of another dtype: the value becomes one of the whole's dtype,
  // and they are all that is left.
  std::vector<UOp> steps;
  std::ranges::copy_if(all_steps, std::back_inserter(steps),
                       [](UOp u) { return !u.Is(Op::BITCAST); });
  value = ir::Bitcast(ctx, value, whole.dtype());
  if (steps.empty()) return value;
  if (!CanBeStored(whole, steps)) return Updated(ctx, whole, steps, value);
  return ir::After(ctx, whole, {ir::Store(ctx, PartOf(ctx, whole, steps), value)});
}

bool IsWhole(const TensorState& a, const TensorState& b) {
  const auto whole = [](const TensorState* t) {
    while (t->view.of != nullptr && t->view.steps.empty()) t = t->view.of;
    return t;
  };
  return whole(&a) == whole(&b);
}

void BeginView(TensorState& t, TensorState& of, UOp step) {
  View& v = t.view;
  v.of = &of;
  if (step && !step.Is(Op::DETACH)) v.steps.push_back(step);
  v.next = of.view.first;
  if (v.next != nullptr) v.next->view.previous = &t;
  of.view.first = &t;
}

void LeaveView(TensorState& t) {
  View& v = t.view;
  if (v.of == nullptr) return;
  (v.previous != nullptr ? v.previous->view.next : v.of->view.first) = v.next;
  if (v.next != nullptr) v.next->view.previous = v.previous;
  v.of = v.next = v.previous = nullptr;
  v.steps.clear();
}

void EndView(TensorState& t) {
  while (TensorState* const own = t.view.first) {
    auto steps = std::move(own->view.steps);
    LeaveView(*own);
    if (t.view.of == nullptr) continue;
    BeginView(*own, *t.view.of, UOp());
    steps.insert(steps.end(), t.view.steps.begin(), t.view.steps.end());
    own->view.steps = std::move(steps);
  }
  LeaveView(t);
}

UOp StepIn(ir::UOpContext& to, UOp step, ir::UOpContext& from,
           absl::flat_hash_map<uint32_t, UOp>& map) {
  // Zeros stand for what it was applied to.
  ir::SymbolicDims dims, srcs;
  for (UOp d : *from.ShapeOf(step.src(0))) dims.push_back(ir::CopyTo(from, d, to, map));
  srcs.push_back(
      ir::Expand(to, to.Const(step.src(0).dtype(), 0), ir::ShapeArg(to, ir::Shape(dims))));
  for (UOp s : step.srcs().subspan(1)) srcs.push_back(ir::CopyTo(from, s, to, map));
  return to.Make(step.op(), step.dtype(), srcs, ir::CopyArg(to, step));
}

}  // namespace uopd::client
