// SPDX-License-Identifier: MIT
#include "core/codegen/passes/unroll.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/machine.h"
#include "core/codegen/passes/combine.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr size_t kMaxNodes = 2'000'000;

// The copies of a node: one for each combination of the values of `along`, the last range varying
// fastest.
struct Copies {
  std::vector<uint32_t> along;  // numbers of unrolled ranges, ascending
  std::vector<UOp> nodes;
};

class Unroller {
 public:
  Unroller(ir::UOpContext& ctx, const Target& target) : ctx_(ctx), target_(target) {}

  absl::StatusOr<UOp> Run(UOp sink) {
    const auto order = ir::Toposort(ctx_, sink);
    for (UOp u : order) {
      if (!IsUnrolled(u)) continue;
      if (u.src(0).op() != Op::CONST)
        return absl::InternalError("an unrolled range has a symbolic size");
      number_[u.id()] = static_cast<uint32_t>(sizes_.size());
      sizes_.push_back(u.src(0).const_int());
    }
    if (sizes_.empty()) return sink;
    for (UOp u : order) {
      UOPD_TRY(Visit(u));
      if (total_ > kMaxNodes)
        return absl::ResourceExhaustedError(Cat("unrolling makes more than ", kMaxNodes, " nodes"));
    }
    return copies_.at(sink.id()).nodes[0];
  }

 private:
  absl::Status Visit(UOp u) {
    Copies out;
    if (IsUnrolled(u)) {
      const uint32_t n = number_.at(u.id());
      out.along = {n};
      for (int64_t i = 0; i < sizes_[n]; ++i) out.nodes.push_back(ctx_.Int(u.dtype(), i));
      return Keep(u, std::move(out));
    }
    const bool closes = u.Is(ir::kClosingOps);
    const size_t n_values = u.n_body();
    std::vector<uint32_t> inside;  // unrolled ranges that the node or its sources depend on
    for (size_t i = 0; i < n_values; ++i) {
      const auto& a = copies_.at(u.src(i).id()).along;
      inside.insert(inside.end(), a.begin(), a.end());
    }
    std::vector<uint32_t> closed;
    std::vector<UOp> loops,
        ranges(u.srcs().begin() + static_cast<ptrdiff_t>(n_values), u.srcs().end());
    // The terms of a reduction are combined in the order of its axes. Stores keep the order of
    // their END, which copies what shares an operand one after the other.
    if (u.Is(Op::REDUCE)) std::ranges::sort(ranges, {}, [](UOp r) { return r.axis_id(); });
    for (UOp r : ranges) {
      if (auto it = number_.find(r.id()); it != number_.end()) {
        closed.push_back(it->second);
      } else {
        loops.push_back(copies_.at(r.id()).nodes[0]);
      }
    }
    inside.insert(inside.end(), closed.begin(), closed.end());
    std::sort(inside.begin(), inside.end());
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    for (uint32_t n : inside) {
      if (std::find(closed.begin(), closed.end(), n) == closed.end()) out.along.push_back(n);
    }
    if (u.Is(Op::SINK) || u.Is(Op::GROUP)) {
      // A list of statements has no copies: it lists every copy of every source.
      std::vector<UOp> all;
      for (UOp s : u.srcs())
        all.insert(all.end(), copies_.at(s.id()).nodes.begin(), copies_.at(s.id()).nodes.end());
      out.nodes = {ctx_.Make(u.op(), u.dtype(), all, u.arg(), u.tag())};
      out.along.clear();
      return Keep(u, std::move(out));
    }
    std::vector<int64_t> at(sizes_.size(), 0);
    const size_t combinations = Product(out.along);
    if (combinations > kMaxNodes)
      return absl::ResourceExhaustedError(Cat("unrolling makes more than ", kMaxNodes, " nodes"));
    for (size_t c = 0; c < combinations; ++c) {
      if (ctx_.Interrupted(2)) return ctx_.CheckInterrupt();
      Spread(out.along, c, at);
      out.nodes.push_back(closes ? Close(u, closed, loops, combinations, at) : CopyAt(u, at));
    }
    return Keep(u, std::move(out));
  }

  absl::Status Keep(UOp u, Copies c) {
    total_ += c.nodes.size();
    copies_[u.id()] = std::move(c);
    return absl::OkStatus();
  }

  size_t Product(const std::vector<uint32_t>& along) const {
    size_t n = 1;
    for (uint32_t a : along)
      n = std::min<size_t>(n * static_cast<size_t>(sizes_[a]), kMaxNodes + 1);
    return n;
  }
  // Writes the values of the ranges `along` in their c-th combination to `at`.
  void Spread(const std::vector<uint32_t>& along, size_t c, std::vector<int64_t>& at) const {
    for (size_t i = along.size(); i-- > 0;) {
      const auto size = static_cast<size_t>(sizes_[along[i]]);
      at[along[i]] = static_cast<int64_t>(c % size);
      c /= size;
    }
  }
  // The copy of u for the range values `at`.
  UOp At(UOp u, const std::vector<int64_t>& at) const {
    const Copies& c = copies_.at(u.id());
    size_t i = 0;
    for (uint32_t a : c.along) i = i * static_cast<size_t>(sizes_[a]) + static_cast<size_t>(at[a]);
    return c.nodes[i];
  }
  UOp CopyAt(UOp u, const std::vector<int64_t>& at) {
    srcs_.clear();
    for (UOp s : u.srcs()) srcs_.push_back(At(s, at));
    return rules::WithIndexSources(ctx_, u, srcs_);
  }

  // One copy of a REDUCE or END u, for the values `at` of the ranges that u depends on. `closed`:
  // the unrolled ranges that u closes. `loops`: the other ranges that u closes. `accumulators`: the
  // number of copies of u.
  UOp Close(UOp u, const std::vector<uint32_t>& closed, const std::vector<UOp>& loops,
            size_t accumulators, std::vector<int64_t>& at) {
    const size_t n = Product(closed);
    std::vector<UOp> values;
    for (size_t c = 0; c < n; ++c) {
      Spread(closed, c, at);
      values.push_back(At(u.src(0), at));
    }
    if (u.Is(Op::END)) {
      values.erase(std::unique(values.begin(), values.end()), values.end());
      std::vector<UOp> out = {values.size() == 1 ? values[0]
                                                 : ctx_.Make(Op::GROUP, ir::Dtype::Void, values)};
      out.insert(out.end(), loops.begin(), loops.end());
      return out.size() == 1 ? out[0] : ctx_.Make(Op::END, ir::Dtype::Void, out);
    }
    const Op op = u.reduce_op();
    auto reduce = [&](UOp x) {
      if (loops.empty()) return x;
      std::vector<UOp> out = {x};
      out.insert(out.end(), loops.begin(), loops.end());
      return ctx_.Make(Op::REDUCE, u.dtype(), out, u.arg(), u.tag());
    };
    const bool in_loop =
        std::ranges::any_of(loops, [](UOp r) { return r.axis_type() == AxisType::REDUCE; });
    if (MachineOf(target_).sums.joins_maxima && op == Op::MAX && loops.empty())
      return Tree(op, values);
    // The accumulators of a group of warps are many registers: its terms are always a chain.
    if (values.size() > 1 && !values[0].Is(Op::GROUP_PRODUCT) &&
        !JoinsTermsInTurn(static_cast<int64_t>(accumulators), in_loop, target_)) {
      for (UOp& v : values) v = reduce(v);
      return Tree(op, values);
    }
    UOp chain;
    if (loops.empty() && values.size() > 1 && op == Op::ADD && ir::IsFloat(u.dtype())) {
      // As with a loop: the first term is added to 0, and a product among the terms is not rounded.
      if (!values[0].Is({Op::WMMA, Op::MMA, Op::GROUP_PRODUCT})) chain = ctx_.Float(u.dtype(), 0);
    }
    for (const UOp next : values) {
      if (!chain) {
        chain = next;
        continue;
      }
      if (op == Op::ADD && next.Is({Op::WMMA, Op::MMA, Op::GROUP_PRODUCT}) && next.n_src() == 2) {
        chain = ctx_.Make(next.op(), next.dtype(), {next.src(0), next.src(1), chain}, next.arg(),
                          kReduceChain);
        continue;
      }
      chain = Combine(ctx_, op, chain, next);
      if (op != Op::MAX)
        chain = ctx_.Make(chain.op(), chain.dtype(), chain.srcs(), chain.arg(), kReduceChain);
    }
    return reduce(chain);
  }

  // All values combined pairwise, in a balanced tree.
  UOp Tree(Op op, std::vector<UOp> values) {
    while (values.size() > 1) {
      std::vector<UOp> next;
      for (size_t i = 0; i + 1 < values.size(); i += 2)
        next.push_back(Combine(ctx_, op, values[i], values[i + 1]));
      if (values.size() % 2 == 1) next.push_back(values.back());
      values = std::move(next);
    }
    return values[0];
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  absl::flat_hash_map<uint32_t, uint32_t> number_;  // id of an unrolled range -> position in sizes_
  std::vector<int64_t> sizes_;
  absl::flat_hash_map<uint32_t, Copies> copies_;
  std::vector<UOp> srcs_;
  size_t total_ = 0;
};

}  // namespace

bool IsUnrolled(UOp u) {
  return u.Is(Op::RANGE) &&
         (u.axis_type() == AxisType::UPCAST || u.axis_type() == AxisType::UNROLL);
}

bool JoinsTermsInTurn(int64_t copies, bool in_loop, const Target& target) {
  const Machine& machine = MachineOf(target);
  return copies >= (in_loop ? machine.sums.chained_in_loop : machine.sums.chained_without);
}

absl::StatusOr<UOp> Unroll(ir::UOpContext& ctx, UOp sink, const Target& target) {
  return Unroller(ctx, target).Run(sink);
}

}  // namespace uopd::codegen
