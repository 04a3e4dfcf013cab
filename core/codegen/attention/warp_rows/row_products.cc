// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/row_products.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/passes/open_ranges.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

bool NeedsLoops(const ir::UOpContext& ctx, UOp u) {
  return std::ranges::any_of(ir::Toposort(ctx, u),
                             [](UOp n) { return n.Is({Op::REDUCE, Op::STAGE, Op::SCAN}); });
}

// The sum of products without the condition that leaves out padding.
UOp WithoutPadding(ir::UOpContext& ctx, UOp reduce) {
  const UOp term = reduce.src(0);
  if (!term.Is(Op::WHERE) || !term.src(2).IsConst(0)) return reduce;
  return ir::ReduceRanges(ctx, reduce.reduce_op(), term.src(1), reduce.closed());
}

// Reads the kernel. Each step returns why it does not fit; empty: it does.
class ProductReader {
 public:
  ProductReader(ir::UOpContext& ctx, UOp sink, UOp range)
      : ctx_(ctx), sink_(sink), range_(range), order_(ir::Toposort(ctx, sink)), open_(ctx, sink) {}

  std::string Read(RowProducts& out) {
    for (UOp u : order_) {
      if (ClosesStates(u)) a_.end = u;
    }
    if (!a_.end) return "the kernel has no ONLINE";
    a_.loop = a_.end.closed()[0];
    for (const auto step : {&ProductReader::Products, &ProductReader::Keys, &ProductReader::Columns,
                            &ProductReader::Rows}) {
      if (std::string why = (this->*step)(); !why.empty()) return why;
    }
    out = a_;
    return "";
  }

 private:
  bool IsState(UOp u) const {
    const auto states = a_.end.src(0).srcs();
    return u.Is(Op::STAGE) && std::ranges::find(states, u) != states.end();
  }

  std::string Products() {
    for (UOp u : order_) {
      if (!u.Is(Op::REDUCE) || u.closed().size() != 1) continue;
      const auto factors = SmallFactors(WithoutPadding(ctx_, u));
      if (!factors) continue;
      const bool second = u.closed()[0] == range_;
      if (second ? bool(a_.sums) : bool(a_.scores)) return "several sums are products";
      (second ? a_.sums : a_.scores) = u;
      (second ? a_.second : a_.first) = *factors;
    }
    if (!a_.scores || !a_.sums) return "the sums are not products of small elements";
    if (!NeedsLoops(ctx_, a_.second.a)) std::swap(a_.second.a, a_.second.b);
    if (!ir::Reaches(ctx_, a_.second.a, a_.scores) || NeedsLoops(ctx_, a_.second.b))
      return "the second product is not one of scores";
    if (NeedsLoops(ctx_, a_.first.a) || NeedsLoops(ctx_, a_.first.b)) return "the scores need sums";
    a_.depth = a_.scores.closed()[0];
    if (const UOp term = a_.sums.src(0); term.Is(Op::WHERE)) a_.maybe_valid = term.src(0);
    return "";
  }

  std::string Keys() {
    absl::flat_hash_set<uint32_t> seen;
    for (UOp u : ir::Toposort(ctx_, a_.end.src(0))) {
      if (!u.Is({Op::REDUCE, Op::STAGE}) || u == a_.scores || IsState(u)) continue;
      if (u.closed().size() != 1 || u.closed()[0].src(0) != range_.src(0))
        return "a key tile has other loops";
      if (u.Is(Op::STAGE) && u.src(1) != u.closed()[0]) return "a key tile has other stages";
      if (seen.insert(u.closed()[0].id()).second) a_.keys.push_back(u.closed()[0]);
    }
    if (seen.contains(a_.depth.id())) return "a loop has two uses";
    for (UOp u : order_) {
      if (u.Is({Op::REDUCE, Op::STAGE}) && !ir::Reaches(ctx_, a_.end, u))
        return "something else has loops";
    }
    const auto along_keys = [&](UOp u) {
      return std::ranges::any_of(a_.keys, [&](UOp k) { return open_.Varies(u, k); });
    };
    if (along_keys(a_.first.a)) std::swap(a_.first.a, a_.first.b);
    if (along_keys(a_.first.a) || !along_keys(a_.first.b)) return "the scores are no such product";
    return "";
  }

  std::string Columns() {
    UOp buffer;
    for (const auto& [id, stage] : StatesOf(ctx_, sink_)) {
      if (!ir::Reaches(ctx_, stage.src(0), a_.sums)) {
        if (!stage.closed().empty()) return "another sum has columns";
        continue;
      }
      if (a_.sums_state) return "two sums have the product";
      a_.sums_state = stage;
      for (UOp u : order_) buffer = u.id() == id ? u : buffer;
    }
    if (!a_.sums_state || a_.sums_state.closed().size() != 1) return "the columns are no axis";
    a_.column = a_.sums_state.closed()[0];
    for (UOp u : order_) {
      if (!u.Is(Op::INDEX) || !u.src(0).Is(Op::AFTER) || u.src(0).src(0) != buffer) continue;
      if (a_.columns && a_.columns != u.src(1)) return "the result has two axes of columns";
      a_.columns = u.src(1);
    }
    if (!a_.columns || !IsOutput(a_.columns) || a_.sums_state.src(1) != a_.column)
      return "the columns are no axis of the output";
    return "";
  }

  bool IsOutput(UOp range) const {
    if (!range.Is(Op::RANGE) || range.axis_type() != AxisType::LOOP) return false;
    return std::ranges::all_of(sink_.srcs(), [&](UOp root) {
      const auto closed = root.closed();
      return root.Is(Op::END) && std::ranges::find(closed, range) != closed.end();
    });
  }

  std::string Rows() {
    for (UOp r : order_) {
      if (!IsOutput(r) || r == a_.columns || !open_.Varies(a_.first.a, r)) continue;
      if (open_.Varies(a_.first.b, r) || open_.Varies(a_.second.b, r)) continue;
      if (a_.rows && ctx_.BoundsOf(r.src(0)).max <= ctx_.BoundsOf(a_.rows.src(0)).max) continue;
      a_.rows = r;
    }
    return a_.rows ? "" : "keys and values share all axes of the rows";
  }

  ir::UOpContext& ctx_;
  const UOp sink_, range_;
  const std::vector<UOp> order_;
  const OpenRanges open_;
  RowProducts a_;
};

}  // namespace

std::string ReadRowProducts(ir::UOpContext& ctx, UOp sink, UOp range, RowProducts& out) {
  return ProductReader(ctx, sink, range).Read(out);
}

}  // namespace uopd::codegen
