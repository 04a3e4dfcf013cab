// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/bulk_plan.h"

#include <algorithm>
#include <functional>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "core/base/target/machine_facts.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/dtype.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

constexpr int64_t kPieceWords = 4;

// Values that only the thread's number decides.
class ThreadValues {
 public:
  ThreadValues(ir::UOpContext& ctx, UOp thread) : ctx_(ctx), thread_(thread) {}

  bool Reach(UOp value) const { return ir::Reaches(ctx_, value, thread_); }
  // Whether the thread's number is the only leaf that is no constant.
  bool Decide(UOp value) const {
    return std::ranges::all_of(
        ir::Toposort(ctx_, std::span<const UOp>(&value, 1), enter_),
        [&](UOp u) { return u == thread_ || u.Is(Op::CONST) || u.Is(ir::kElementwiseOps); });
  }
  // The value in thread t; nothing: an op has none. REQUIRES: Decide(value).
  std::optional<int64_t> MaybeAt(UOp value, int64_t t) const {
    absl::flat_hash_map<uint32_t, ir::Scalar> done;
    std::vector<ir::Scalar> srcs;
    for (UOp u : ir::Toposort(ctx_, std::span<const UOp>(&value, 1), enter_)) {
      if (u == thread_ || u.Is(Op::CONST)) {
        done[u.id()] = u == thread_ ? ir::Scalar::Int(u.dtype(), t) : ir::Scalar::Of(u);
        continue;
      }
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
      const auto out = ir::EvalAlu(u.op(), u.dtype(), srcs);
      if (!out) return std::nullopt;
      done[u.id()] = *out;
    }
    return done.at(value.id()).i;
  }

 private:
  ir::UOpContext& ctx_;
  const UOp thread_;
  const std::function<bool(UOp)> enter_ = [this](UOp u) { return u != thread_; };
};

// An index as a sum: what only the thread's number decides, terms without it, and a constant.
struct SplitIndex {
  struct Term {
    UOp value;
    int64_t factor;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> of_thread, others;
  int64_t constant = 0;

  // False if a term is of both kinds.
  bool Add(const ThreadValues& values, UOp index, int64_t factor = 1) {
    if (index.Is(Op::CONST)) {
      constant += factor * index.const_int();
      return true;
    }
    if (index.Is(Op::ADD))
      return Add(values, index.src(0), factor) && Add(values, index.src(1), factor);
    if (index.Is(Op::MUL) && index.src(1).Is(Op::CONST))
      return Add(values, index.src(0), factor * index.src(1).const_int());
    if (index.Is(Op::SHL) && index.src(1).Is(Op::CONST) && index.src(1).const_int() < 32)
      return Add(values, index.src(0), factor << index.src(1).const_int());
    const bool mine = values.Reach(index);
    if (mine && !values.Decide(index)) return false;
    (mine ? of_thread : others).push_back({index, factor});
    return true;
  }
  // The thread's terms and the constant in thread t.
  std::optional<int64_t> MaybeAt(const ThreadValues& values, int64_t t) const {
    int64_t out = constant;
    for (const Term& term : of_thread) {
      const auto value = values.MaybeAt(term.value, t);
      if (!value) return std::nullopt;
      out += term.factor * *value;
    }
    return out;
  }
};

// Where the spans of the array lie in the buffer, in words, from the terms of `others` on.
struct Spans {
  std::vector<int64_t> begin;
  std::vector<SplitIndex::Term> others;
  UOp from;
};

// Whether thread t has nothing to do where the gates of an access are; nothing: not only the thread
// decides that.
std::optional<bool> MaybeIdle(const ThreadValues& values, UOp store, int64_t t) {
  bool idle = false;
  for (UOp index : {store.src(0), store.src(1).src(0)}) {
    if (index.n_src() < 3) continue;
    if (!values.Decide(index.src(2))) return std::nullopt;
    const auto gate = values.MaybeAt(index.src(2), t);
    if (!gate) return std::nullopt;
    // What is loaded where its gate is false is zero: no copy.
    if (*gate == 0 && index == store.src(1).src(0) && !idle) return std::nullopt;
    idle = idle || *gate == 0;
  }
  return idle;
}

std::optional<Spans> MaybeSpans(ir::UOpContext& ctx, std::span<const UOp> stores, UOp thread,
                                int64_t span) {
  TensorMap layout;
  layout.span = span;
  const ThreadValues values(ctx, thread);
  const int64_t threads = thread.src(0).const_int(), in_span = span / kSharedWordBytes;
  std::map<int64_t, int64_t> pieces;  // number of a piece in the array -> word of the buffer
  Spans out;
  for (UOp store : stores) {
    const UOp to = store.src(0), from = store.src(1).src(0), base = ir::MaybeBaseOf(from.src(0));
    SplitIndex at, source;
    if (from.arg().AsInt() != kPieceWords || !at.Add(values, to.src(1)) || !at.others.empty() ||
        !source.Add(values, from.src(1)))
      return std::nullopt;
    if (out.from && (out.from != base || out.others != source.others)) return std::nullopt;
    out.from = base;
    out.others = source.others;
    for (int64_t t = 0; t < threads; ++t) {
      const auto idle = MaybeIdle(values, store, t);
      if (!idle) return std::nullopt;
      if (*idle) continue;
      const auto to_word = at.MaybeAt(values, t), from_word = source.MaybeAt(values, t);
      if (!to_word || !from_word || *from_word < 0 || *to_word < 0 || *to_word % kPieceWords != 0)
        return std::nullopt;
      const int64_t piece =
          layout.Swizzled(*to_word * kSharedWordBytes) / (kPieceWords * kSharedWordBytes);
      if (!pieces.emplace(piece, *from_word).second) return std::nullopt;
    }
  }
  const auto count = static_cast<int64_t>(pieces.size()), pieces_of_span = in_span / kPieceWords;
  if (count == 0 || pieces.rbegin()->first != count - 1 ||
      count % (pieces_of_span * kAtomRows) != 0)
    return std::nullopt;
  for (const auto& [piece, word] : pieces) {
    const int64_t in = piece % pieces_of_span;
    if (in == 0) out.begin.push_back(word);
    if (word != out.begin.back() + in * kPieceWords) return std::nullopt;
  }
  return out;
}

// The rows of a box, of which there is a whole number: as many spans as lie equally far apart.
int64_t RowsOfABox(const std::vector<int64_t>& begin, int64_t distance) {
  size_t rows = 1;
  while (rows < begin.size() && begin[rows] - begin[rows - 1] == distance) ++rows;
  while (static_cast<int64_t>(rows) > TensorMap::kMostBox && rows % 2 == 0) rows /= 2;
  if (begin.size() % rows != 0) return 0;
  for (size_t i = 1; i < begin.size(); ++i) {
    if (i % rows != 0 && begin[i] - begin[i - 1] != distance) return 0;
  }
  return static_cast<int64_t>(rows);
}

}  // namespace

std::optional<BulkPlan> MaybeBulkPlan(ir::UOpContext& ctx, std::span<const UOp> stores, UOp thread,
                                      int64_t span) {
  const auto spans = MaybeSpans(ctx, stores, thread, span);
  if (!spans || spans->begin.size() < 2) return std::nullopt;
  const int64_t width = span / kSharedWordBytes, row = spans->begin[1] - spans->begin[0];
  const UOp elements = (*ctx.ShapeOf(spans->from))[0];
  if (row < width || !elements.Is(Op::CONST)) return std::nullopt;
  const int64_t box_rows = RowsOfABox(spans->begin, row);
  if (box_rows == 0 || box_rows % kAtomRows != 0) return std::nullopt;
  BulkPlan out;
  out.from = spans->from;
  out.map = {spans->from.slot(),       kSharedWordBytes, span, {row, elements.const_int() / row},
             {row * kSharedWordBytes}, {width, box_rows}};
  if (!out.map.MaybeWrong().empty()) return std::nullopt;
  // A term that steps along rows, or inside of one.
  UOp x0 = ctx.Idx(0), y0 = ctx.Idx(0);
  for (const SplitIndex::Term& term : spans->others) {
    const bool rows = term.factor % row == 0;
    UOp& sum = rows ? y0 : x0;
    sum = IndexSum(ctx, sum,
                   IndexProduct(ctx, term.value, ctx.Idx(rows ? term.factor / row : term.factor)));
  }
  for (size_t i = 0; i < spans->begin.size(); i += static_cast<size_t>(box_rows)) {
    const int64_t begin = spans->begin[i];
    BulkBox box{static_cast<int64_t>(i) * width, IndexSum(ctx, x0, ctx.Idx(begin % row)),
                IndexSum(ctx, y0, ctx.Idx(begin / row))};
    const ir::Bounds x = ctx.BoundsOf(box.x), y = ctx.BoundsOf(box.y);
    if (x.min < 0 || x.max + width > row || y.min < 0 || y.max + box_rows > out.map.dims[1])
      return std::nullopt;
    out.boxes.push_back(box);
  }
  return out;
}

}  // namespace uopd::codegen
