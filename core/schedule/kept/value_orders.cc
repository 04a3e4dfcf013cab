// SPDX-License-Identifier: MIT
#include "core/schedule/kept/value_orders.h"

#include <algorithm>
#include <numeric>

#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kMostProducts = 8;  // below one value that are told apart

bool IsComputed(UOp u) { return u.Is(ir::kElementwiseOps) || u.Is(Op::REDUCE); }
bool PassesOn(UOp u) { return u.Is(ir::kElementwiseOps) || u.Is(ir::kMovementOps); }

double WorkOf(const Product& p) {
  double work = 1;
  for (int64_t d : p.dims) work *= static_cast<double>(d);
  return work;
}

class Chooser {
 public:
  Chooser(ir::UOpContext& ctx, Accesses& accesses, std::span<const UOp> order,
          const absl::flat_hash_map<uint32_t, PackedProduct>& products, const Stability& stability)
      : ctx_(ctx), accesses_(accesses), order_(order), products_(products), stability_(stability) {}

  ValueOrders Run() {
    FindProducts();
    for (UOp u : order_) {
      if (!u.Is(Op::REDUCE)) continue;
      const auto found = products_.find(u.id());
      if (found == products_.end()) {
        UOp base = u.src(0);
        while (base.Is(Op::CAST) || base.Is(ir::kMovementOps)) base = base.src(0);
        // A sum over the results of a product, such as a mean over pixels, would keep the product
        // from having a tile. Sums of floats add up in the order of memory, so a value that nothing
        // else reads keeps the order that it has in the undivided graph.
        const UOp stored = BelowPadding(base);
        const bool adds = u.reduce_op() != Op::MAX && ir::IsFloat(u.dtype());
        if (!adds || readers_[stored.id()] > 1 || !KeepsOrder(stored)) Want(stored);
        continue;
      }
      const PackedProduct& p = found->second;
      const Operand& read = p.packs_a ? p.product.b : p.product.a;
      const UOp stored = Rounded(read);
      if (stored != read.base && readers_[read.base.id()] > 1) Want(read.base);
      if (Want(stored)) continue;
      if (MayOrder(stored)) Put(stored, ReadOrder(p, read));
    }
    // Values that a stored value joins. From the users to the sources, since a join may be below
    // another one.
    for (size_t i = order_.size(); i-- > 0;) Separate(order_[i]);
    return std::move(out_);
  }

 private:
  // The products whose sums a value is computed from, elementwise.
  void FindProducts() {
    below_.resize(ctx_.size());
    readers_.resize(ctx_.size(), 0);
    for (UOp u : order_) {
      for (UOp s : u.srcs()) ++readers_[s.id()];
      auto& mine = below_[u.id()];
      if (products_.contains(u.id())) {
        mine = {u};
      } else if (PassesOn(u)) {
        const auto sources = u.Is(ir::kMovementOps) ? u.srcs().first(1) : u.srcs();
        for (UOp s : sources) {
          for (UOp r : below_[s.id()]) {
            if (mine.size() < kMostProducts && std::ranges::find(mine, r) == mine.end())
              mine.push_back(r);
          }
        }
      }
    }
  }

  // The CAST to a smaller dtype directly above the base, or the base. What is stored has the axes
  // of the base either way.
  static UOp Rounded(const Operand& read) {
    UOp above;
    for (UOp u = read.value; u != read.base; u = u.src(0)) above = u;
    const bool rounds = above && above.Is(Op::CAST) && ir::IsFloat(above.dtype()) &&
                        ir::IsFloat(read.base.dtype()) &&
                        ir::Bits(above.dtype()) < ir::Bits(read.base.dtype());
    return rounds ? above : read.base;
  }

  bool MayOrder(UOp v) const {
    return IsComputed(v) && !stability_.IsStable(v) && !out_.contains(v.id()) &&
           ir::StaticDims(*ctx_.ShapeOf(v)).has_value();
  }
  void Put(UOp v, std::vector<int64_t> order) {
    if (!order.empty()) out_[v.id()] = std::move(order);
  }

  // Stores v in the order of its axes. False if it is not computed from a product.
  bool KeepsOrder(UOp v) {
    if (!MayOrder(v) || below_[v.id()].empty()) return false;
    std::vector<int64_t> order(ctx_.ShapeOf(v)->size());
    std::iota(order.begin(), order.end(), 0);
    Put(v, std::move(order));
    return true;
  }

  // Stores v in the order of the product that it is computed from. False if there is none.
  bool Want(UOp v) {
    if (out_.contains(v.id())) return true;
    if (!MayOrder(v) || below_[v.id()].empty()) return false;
    auto order = StoreOrder(v, Largest(below_[v.id()]));
    if (order.empty()) return false;
    Put(v, std::move(order));
    return true;
  }

  // The value that v pads: v itself, or what is below the last PAD on the way to the product.
  UOp BelowPadding(UOp v) const {
    UOp out = v;
    for (UOp u = v; !below_[u.id()].empty() && !u.Is(Op::REDUCE);) {
      UOp next;
      for (UOp s : u.Is(ir::kMovementOps) ? u.srcs().first(1) : u.srcs()) {
        if (stability_.IsStable(s)) continue;
        if (next) return out;
        next = s;
      }
      if (u.Is(Op::PAD)) out = next;
      u = next;
    }
    return out;
  }

  UOp Largest(std::span<const UOp> reduces) const {
    return *std::ranges::max_element(reduces, {}, [&](UOp r) {
      return std::pair(WorkOf(products_.at(r.id()).product), r.id());
    });
  }

  // The axes of v with the one that is the vectorised axis of the product moved to the end; empty
  // if no axis is.
  std::vector<int64_t> StoreOrder(UOp v, UOp reduce) {
    const ir::Dims dims = *ir::StaticDims(*ctx_.ShapeOf(v));
    IndexList index;
    for (size_t i = 0; i < dims.size(); ++i) {
      const UOp size = ctx_.Idx(dims[i]);
      index.push_back(dims[i] == 1
                          ? ctx_.Idx(0)
                          : ir::Range(ctx_, size, static_cast<int64_t>(i), ir::AxisType::LOOP));
    }
    const Access* at = accesses_.At(index, ctx_.Bool(true));
    // Down to the product: below_ says which source leads there.
    UOp u = v;
    while (u != reduce) {
      UOp next;
      for (UOp s : u.Is(ir::kMovementOps) ? u.srcs().first(1) : u.srcs()) {
        if (std::ranges::find(below_[s.id()], reduce) != below_[s.id()].end()) next = s;
      }
      at = u.Is(ir::kMovementOps)
               ? accesses_.OfSource(u, at)
               : accesses_.OfOperand(ctx_.ShapeOf(next), ctx_.ShapeOf(u), false, at);
      u = next;
    }
    const PackedProduct& p = products_.at(reduce.id());
    const ir::Shape shape = *ctx_.ShapeOf(reduce);
    if (shape.size() != p.product.dims.size()) return {};
    const UOp last = at->index[p.vector];
    const auto found = std::ranges::find(index, last);
    if (found == index.end() || !last.Is(Op::RANGE)) return {};
    std::vector<int64_t> order;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (index[i] != last) order.push_back(static_cast<int64_t>(i));
    }
    order.push_back(found - index.begin());
    return order;
  }

  // The axes of the base of an operand with those that only reduced axes or the vectorised axis run
  // over moved to the end.
  std::vector<int64_t> ReadOrder(const PackedProduct& p, const Operand& read) const {
    const uint64_t inner = p.product.reduced | uint64_t{1} << p.vector;
    std::vector<int64_t> order, last;
    for (size_t i = 0; i < read.access->index.size(); ++i) {
      const uint64_t axes = AxesIn(ctx_, p.product, read.access->index[i]);
      const bool is_inner = axes != 0 && (axes & ~inner) == 0;
      (is_inner ? last : order).push_back(static_cast<int64_t>(i));
    }
    if (last.empty() || std::ranges::is_sorted(Joined(order, last))) return {};
    return Joined(order, last);
  }
  static std::vector<int64_t> Joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // Stores the sources of u that have a product of their own, except for the largest product.
  void Separate(UOp u) {
    if (!u.Is(ir::kElementwiseOps) || below_[u.id()].size() < 2) return;
    UOp first;
    for (UOp s : u.srcs()) {
      const auto& mine = below_[s.id()];
      if (mine.empty()) continue;
      if (!first) {
        first = s;
        continue;
      }
      const auto& theirs = below_[first.id()];
      if (std::ranges::equal(mine, theirs)) continue;
      const UOp a = Largest(theirs), b = Largest(mine);
      const bool larger =
          WorkOf(products_.at(b.id()).product) > WorkOf(products_.at(a.id()).product);
      UOp stored = larger ? first : s;
      while (stored.Is(ir::kMovementOps)) stored = stored.src(0);
      Want(stored);
      if (larger) first = s;
    }
  }

  ir::UOpContext& ctx_;
  Accesses& accesses_;
  const std::span<const UOp> order_;
  const absl::flat_hash_map<uint32_t, PackedProduct>& products_;
  const Stability& stability_;
  std::vector<absl::InlinedVector<UOp, 2>> below_;  // by node id
  std::vector<int> readers_;                        // by node id: the nodes that read it
  ValueOrders out_;
};

}  // namespace

ValueOrders ChooseValueOrders(ir::UOpContext& ctx, Accesses& accesses, std::span<const UOp> order,
                              const absl::flat_hash_map<uint32_t, PackedProduct>& products,
                              const Stability& stability) {
  return Chooser(ctx, accesses, order, products, stability).Run();
}

}  // namespace uopd::schedule
