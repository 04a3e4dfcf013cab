// SPDX-License-Identifier: MIT
#include "core/schedule/kept/kept.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rules/rules.h"
#include "core/schedule/fusion/access.h"
#include "core/schedule/kept/value_orders.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;

// Least work of a value that is kept, in operations for one element: a load costs four.
constexpr double kLeastWork = 8;
// A kept value may be this many times as large as what it is computed from, or this large in bytes
// if computing it takes kTableWork: tables of positions.
constexpr double kMostGrowth = 2;
constexpr double kTableBytes = 16 << 20;
constexpr double kTableWork = 16;
constexpr int64_t kMostSlots = 1000;

constexpr OpSet kUnknown = {Op::COPY, Op::MULTI};

class Splitter {
 public:
  Splitter(ir::UOpContext& ctx, UOp sink, const std::vector<bool>& stable, const Target& target,
           const KeptOptions& options)
      : ctx_(ctx),
        target_(target),
        options_(options),
        order_(ir::Toposort(ctx, sink)),
        stability_(ctx, order_, stable),
        simplify_(ctx, rules::SymbolicRules()),
        accesses_(ctx, simplify_) {}

  absl::StatusOr<std::optional<KeptSplit>> Run() {
    if (!OnOneDevice()) return std::nullopt;
    FindProducts();
    orders_ = ChooseValueOrders(ctx_, accesses_, order_, products_, stability_);
    FindKept();
    UOPD_TRY(ctx_.CheckInterrupt());
    KeptSplit out;
    out.first_slot = next_slot_;
    out.main = Rebuild();
    UOPD_TRY(ctx_.CheckInterrupt());
    if (stores_.empty() || out_bytes_ > options_.max_bytes) return std::nullopt;
    out.prologue = ir::Sink(ctx_, stores_);
    out.slots = static_cast<int64_t>(stores_.size());
    out.bytes = out_bytes_;
    for (UOp graph : {out.main, out.prologue})
      UOPD_TRY(ir::VerifyBorder(ctx_, graph, ir::Level::kTensor, "a graph with kept values"));
    return out;
  }

 private:
  bool OnOneDevice() {
    bool any = false;
    for (UOp u : order_) {
      if (u.Is(kUnknown)) return false;
      if (!u.Is(Op::PARAM)) continue;
      if (any && u.text() != device_) return false;
      any = true;
      device_ = u.text();
      next_slot_ = std::max(next_slot_, u.slot() + 1);
    }
    return any;
  }

  void FindProducts() {
    for (UOp u : order_) {
      const auto p = ProductOf(ctx_, accesses_, u);
      if (!p) continue;
      const bool a = stability_.Varies(p->a.value), b = stability_.Varies(p->b.value);
      if (a == b) continue;
      const Operand &packed = a ? p->a : p->b, &other = a ? p->b : p->a;
      auto form = PackedOf(ctx_, *p, packed, other, stability_.LeafBytes(packed.value), target_);
      // Of two sums of the same products the first one chooses the form.
      if (!form || forms_.contains(p->mul.id())) continue;
      products_[u.id()] = {*p, form->axes[form->vector], a};
      forms_[p->mul.id()] = {*std::move(form), u.id()};
    }
  }

  // Marks the stable values that the main graph will load: those that some changing value is
  // computed from, directly or through movement ops.
  void FindKept() {
    kept_.resize(ctx_.size(), false);
    for (UOp u : order_) {
      if (stability_.IsStable(u)) continue;
      for (UOp s : u.srcs()) {
        while (stability_.IsStable(s) && s.Is(ir::kMovementOps)) s = s.src(0);
        if (stability_.IsStable(s) && IsWorthKeeping(s)) kept_[s.id()] = true;
      }
    }
  }
  bool IsWorthKeeping(UOp u) const {
    if (!u.Is(ir::kElementwiseOps) && !u.Is(Op::REDUCE)) return false;
    if (!stability_.Varies(u) || stability_.Work(u) < kLeastWork) return false;
    const auto dims = ir::StaticDims(*ctx_.ShapeOf(u));
    if (!dims || u.dtype() == ir::Dtype::Index) return false;
    const auto bytes = static_cast<double>(ir::Product(*dims) * ir::ByteSize(u.dtype()));
    return bytes > 0 && (bytes <= kMostGrowth * stability_.LeafBytes(u) ||
                         (stability_.Work(u) >= kTableWork && bytes <= kTableBytes));
  }

  // A slot for a value, and the STORE in the prologue that fills it.
  UOp Keep(UOp value) {
    if (const auto found = slots_.find(value.id()); found != slots_.end()) return found->second;
    const ir::Dims dims = *ir::StaticDims(*ctx_.ShapeOf(value));
    const UOp slot =
        ir::Param(ctx_, next_slot_++, value.dtype(), ir::ShapeArg(ctx_, dims), device_);
    stores_.push_back(ir::Store(ctx_, slot, value));
    out_bytes_ += ir::Product(dims) * ir::ByteSize(value.dtype());
    return slots_[value.id()] = slot;
  }
  bool MayKeep() const { return static_cast<int64_t>(stores_.size()) < kMostSlots; }

  UOp Rebuild() {
    std::vector<UOp> done(ctx_.size());
    ir::SymbolicDims srcs;
    for (UOp u : order_) {
      if (ctx_.Interrupted()) return order_.back();
      if (kept_[u.id()] && MayKeep()) {
        done[u.id()] = Keep(u);
        continue;
      }
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done[s.id()]);
      if (const auto form = forms_.find(u.id()); form != forms_.end() && MayKeep())
        PackOperand(form->second, srcs);
      UOp made = ctx_.WithSources(u, srcs);
      if (const auto order = orders_.find(u.id()); order != orders_.end())
        made = Ordered(made, order->second);
      done[u.id()] = made;
    }
    return done[order_.back().id()];
  }
  struct Form {
    PackedOperand operand;
    uint32_t reduce = 0;  // id of the product's REDUCE
  };
  // Replaces the source of a MUL that is packed by a view of its packed form.
  void PackOperand(const Form& form, ir::SymbolicDims& srcs) {
    const PackedProduct& p = products_.at(form.reduce);
    const size_t i = p.packs_a ? 0 : 1;
    const UOp operand = p.product.mul.src(i);
    const UOp slot = Keep(Pack(ctx_, form.operand, p.product, operand));
    srcs[i] = Unpack(ctx_, form.operand, p.product, operand, slot);
  }
  // The value, stored with its axes in this order.
  UOp Ordered(UOp value, const std::vector<int64_t>& order) {
    ir::Dims back(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    const UOp stored = ctx_.Make(Op::CONTIGUOUS, value.dtype(), {ir::Permute(ctx_, value, order)});
    return ir::Permute(ctx_, stored, back);
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  const KeptOptions& options_;
  const std::vector<UOp> order_;
  const Stability stability_;
  rewrite::Rewriter simplify_;
  Accesses accesses_;
  std::string_view device_;
  absl::flat_hash_map<uint32_t, PackedProduct> products_;  // by id of the REDUCE
  absl::flat_hash_map<uint32_t, Form> forms_;              // by id of the MUL
  ValueOrders orders_;
  std::vector<bool> kept_;  // by id
  int64_t next_slot_ = 0, out_bytes_ = 0;
  absl::flat_hash_map<uint32_t, UOp> slots_;  // id of a kept value -> its PARAM
  std::vector<UOp> stores_;
};

}  // namespace

absl::StatusOr<std::optional<KeptSplit>> SplitKept(ir::UOpContext& ctx, UOp sink,
                                                   const std::vector<bool>& stable,
                                                   const Target& target,
                                                   const KeptOptions& options) {
  const rewrite::TraceGroup group("keep");
  return Splitter(ctx, sink, stable, target, options).Run();
}

}  // namespace uopd::schedule
