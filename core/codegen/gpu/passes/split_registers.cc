// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/split_registers.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

bool IsRegisters(UOp u) { return u && u.Is(Op::BUFFER) && u.addrspace() == ir::AddrSpace::REG; }

class Splitter {
 public:
  Splitter(ir::UOpContext& ctx, std::span<const UOp> order) : ctx_(ctx) {
    for (UOp u : order) {
      if (IsRegisters(u)) {
        arrays_.insert(u.id());
        next_slot_ = std::max(next_slot_, u.slot() + 1);
      }
      if (!u.Is(Op::INDEX)) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0));
      if (IsRegisters(base) && (!u.src(1).Is(Op::CONST) || u.arg().AsInt() > 1 || u.n_src() == 3))
        arrays_.erase(base.id());
    }
  }
  bool HasNone() const { return arrays_.empty(); }

  UOp Run(std::span<const UOp> order) {
    std::vector<UOp> srcs;
    for (UOp u : order) {
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done_.at(s.id()));
      const bool mine = u.Is(Op::INDEX) && IsSplit(u.src(0));
      done_[u.id()] = mine ? ir::Index(ctx_, Element(u.src(0), u.src(1).const_int()), ctx_.Idx(0),
                                       UOp(), u.arg().AsInt())
                           : ctx_.WithSources(u, srcs);
    }
    return done_.at(order.back().id());
  }

 private:
  bool IsSplit(UOp array) const {
    const UOp base = ir::MaybeBaseOf(array);
    return base && arrays_.contains(base.id());
  }

  // The register of an element of `array`: a BUFFER, or one after statements. Recursion is as deep
  // as AFTERs of an array nest: twice.
  UOp Element(UOp array, int64_t at) {
    UOp& out = elements_[{array.id(), at}];
    if (out) return out;
    if (array.Is(Op::BUFFER)) {
      return out = ir::Buffer(ctx_, next_slot_++, array.dtype(), ir::ShapeArg(ctx_, ir::Dims{1}),
                              ir::AddrSpace::REG);
    }
    std::vector<UOp> after;
    for (UOp s : array.srcs().subspan(1)) after.push_back(done_.at(Own(s, at).id()));
    const UOp made = ir::After(ctx_, Element(array.src(0), at), after);
    return elements_[{array.id(), at}] = made;
  }
  // Of a GROUP that sets all elements of an array: the STORE of one of them.
  UOp Own(UOp statement, int64_t at) const {
    if (!statement.Is(Op::GROUP)) return statement;
    for (UOp s : statement.srcs()) {
      if (s.Is(Op::STORE) && IsSplit(s.src(0).src(0)) && s.src(0).src(1).IsConstInt(at)) return s;
    }
    return statement;
  }

  ir::UOpContext& ctx_;
  absl::flat_hash_set<uint32_t> arrays_;  // ids of BUFFERs
  absl::flat_hash_map<uint32_t, UOp> done_;
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, UOp> elements_;
  int64_t next_slot_ = 0;
};

}  // namespace

UOp SplitRegisters(ir::UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  Splitter splitter(ctx, order);
  return splitter.HasNone() ? sink : splitter.Run(order);
}

}  // namespace uopd::codegen
