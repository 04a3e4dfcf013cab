// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/group_mma.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/telemetry/log.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

class GroupMmaMaker {
 public:
  GroupMmaMaker(ir::UOpContext& ctx, UOp linear) : ctx_(ctx), linear_(linear) {
    for (UOp u : linear.srcs()) {
      if (u.Is(Op::BUFFER)) next_slot_ = std::max(next_slot_, u.slot() + 1);
      if (u.Is(Op::GROUP_PRODUCT) && u.n_src() == 3) continued_.insert(u.src(2).id());
      // What is stored is the product at the end of a chain.
      if (!u.Is(Op::STORE) || !u.src(1).Is(Op::GROUP_PRODUCT)) continue;
      const UOp start = StartOf(u.src(1));
      if (start.Is(Op::LOAD) && start.src(0) == u.src(0)) stored_[u.src(1).id()] = u;
    }
    for (const auto& [id, store] : stored_) {
      for (UOp u = store.src(1); u.Is(Op::GROUP_PRODUCT) && u.n_src() == 3; u = u.src(2)) {
        if (u.src(2).Is(Op::LOAD)) starts_.insert(u.src(2).id());
        in_place_[u.id()] = store.src(0);
      }
    }
  }

  absl::StatusOr<UOp> Run() {
    const auto lines = linear_.srcs();
    for (size_t i = 0; i < lines.size();) {
      size_t end = i;
      bool used = false;  // by a line: what comes next is another batch
      absl::flat_hash_set<uint32_t> batch;
      for (; end < lines.size() && !lines[end].Is({Op::RANGE, Op::END}); ++end) {
        const UOp u = lines[end];
        const bool is_product = u.Is(Op::GROUP_PRODUCT);
        if (is_product && used) break;
        if (is_product) batch.insert(u.id());
        used |= !is_product &&
                std::ranges::any_of(u.srcs(), [&](UOp s) { return batch.contains(s.id()); });
      }
      UOPD_TRY(Stretch(lines.subspan(i, end - i)));
      i = end;
      if (i < lines.size() && lines[i].Is({Op::RANGE, Op::END})) Copy(lines[i++]);
    }
    return ctx_.Make(Op::LINEAR, Dtype::Void, out_, linear_.arg(), linear_.tag());
  }

 private:
  // The first source of a chain of products: what the first one adds to, or the first one itself.
  static UOp StartOf(UOp u) {
    while (u.Is(Op::GROUP_PRODUCT) && u.n_src() == 3) u = u.src(2);
    return u;
  }
  UOp New(UOp u) const {
    const auto it = made_.find(u.id());
    return it == made_.end() ? u : it->second;
  }
  UOp Line(UOp u) {
    out_.push_back(u);
    return u;
  }
  UOp LineOnce(UOp u) { return std::ranges::find(out_, u) == out_.end() ? Line(u) : u; }
  void Copy(UOp u) {
    std::vector<UOp> srcs;
    for (UOp s : u.srcs()) {
      const UOp mine = New(s);
      // Stores of several accumulators became one line.
      if (u.Is({Op::GROUP, Op::AFTER}) && std::ranges::find(srcs, mine) != srcs.end()) continue;
      srcs.push_back(mine);
    }
    made_[u.id()] = Line(u.Is({Op::PARAM, Op::BUFFER}) ? u : ctx_.WithSources(u, srcs));
  }

  // Lines with at most one batch, and no end of a loop between them.
  absl::Status Stretch(std::span<const UOp> lines) {
    size_t first = lines.size(), last = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].Is(Op::GROUP_PRODUCT)) continue;
      first = std::min(first, i);
      last = i;
    }
    std::vector<UOp> sums;  // INDEXes of the batch's accumulators
    UOp wait;
    for (size_t i = 0; i < lines.size(); ++i) {
      const UOp u = lines[i];
      if (i == first) {
        for (UOp p : lines.subspan(first, last + 1 - first)) {
          if (!p.Is(Op::GROUP_PRODUCT)) continue;
          UOPD_ASSIGN(const UOp at, AccumulatorOf(p));
          if (std::ranges::find(sums, at) == sums.end()) sums.push_back(at);
        }
        Line(ctx_.Make(Op::MMA_BEGIN, Dtype::Void, sums));
      }
      if (starts_.contains(u.id())) continue;
      if (u.Is(Op::STORE) && stored_.contains(u.src(1).id()) && stored_.at(u.src(1).id()) == u) {
        if (!wait) return UOPD_BUG("a product is stored before it is computed");
        made_[u.id()] = wait;
        continue;
      }
      if (!u.Is(Op::GROUP_PRODUCT)) {
        Copy(u);
        continue;
      }
      UOPD_ASSIGN(const UOp at, AccumulatorOf(u));
      Line(ctx_.Make(Op::GROUP_MMA, Dtype::Void, {at, New(u.src(0)), New(u.src(1))}, u.arg()));
      if (i != last) continue;
      Line(ctx_.Make(Op::MMA_COMMIT, Dtype::Void, {out_.back()}));
      wait = Line(ctx_.Make(Op::MMA_WAIT, Dtype::Void, sums, ir::Arg::Int(0)));
      for (UOp p : lines.subspan(first, last + 1 - first)) {
        if (!p.Is(Op::GROUP_PRODUCT) || in_place_.contains(p.id()) || continued_.contains(p.id()))
          continue;
        made_[p.id()] = Line(ir::Load(ctx_, arrays_.at(FirstOf(p).id())));
      }
    }
    return absl::OkStatus();
  }

  // The INDEX of the accumulator that the product changes. Makes the array of one that has none.
  absl::StatusOr<UOp> AccumulatorOf(UOp product) {
    if (const auto it = in_place_.find(product.id()); it != in_place_.end()) return New(it->second);
    if (StartOf(product).Is(Op::LOAD))
      return UOPD_BUG("a product adds to a value that is not stored again");
    UOp& at = arrays_[FirstOf(product).id()];
    if (!at) {
      const int64_t lanes = (*ctx_.ShapeOf(product))[0].const_int();
      const UOp array = Line(ir::Buffer(ctx_, next_slot_++, product.dtype(),
                                        ir::ShapeArg(ctx_, ir::Dims{lanes}), ir::AddrSpace::REG));
      const UOp zero = ir::IsFloat(product.dtype()) ? ctx_.Float(product.dtype(), 0)
                                                    : ctx_.Int(product.dtype(), 0);
      const UOp zeros = LineOnce(ctx_.Make(Op::STACK, product.dtype(),
                                           std::vector<UOp>(static_cast<size_t>(lanes), zero)));
      at = Line(ir::Index(ctx_, array, ctx_.Idx(0), UOp(), lanes));
      Line(ir::Store(ctx_, at, zeros));
    }
    return at;
  }
  static UOp FirstOf(UOp u) {
    while (u.n_src() == 3 && u.src(2).Is(Op::GROUP_PRODUCT)) u = u.src(2);
    return u;
  }

  ir::UOpContext& ctx_;
  const UOp linear_;
  std::vector<UOp> out_;
  absl::flat_hash_map<uint32_t, UOp> made_;
  absl::flat_hash_map<uint32_t, UOp>
      stored_;                            // last product of a chain -> the STORE to its accumulator
  absl::flat_hash_set<uint32_t> starts_;  // LOADs of accumulators that chains begin with
  absl::flat_hash_map<uint32_t, UOp> in_place_;  // product -> INDEX of its accumulator
  absl::flat_hash_map<uint32_t, UOp>
      arrays_;  // first product of a chain -> INDEX of an array of its own
  absl::flat_hash_set<uint32_t> continued_;  // products that another one adds to
  int64_t next_slot_ = 0;
};

}  // namespace

absl::StatusOr<UOp> MakeGroupMmas(ir::UOpContext& ctx, UOp linear) {
  const bool any =
      std::ranges::any_of(linear.srcs(), [](UOp u) { return u.Is(Op::GROUP_PRODUCT); });
  if (!any) return linear;
  return GroupMmaMaker(ctx, linear).Run();
}

}  // namespace uopd::codegen
