// SPDX-License-Identifier: MIT
#include "core/codegen/passes/sum_chunks.h"

#include <algorithm>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/machine.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

// A chunk has at most this many terms. In a very long sum a chunk has up to twice the square root
// of the number of terms of the sum. A sum with fewer than two full chunks of terms is not cut.
constexpr int64_t kChunkTerms = 512;
// A sum of fewer products is not cut. The relative error of such a sum stays below 16384 times half
// a unit in the last place.
constexpr double kLeastProducts = 16384;

bool IsFloatSum(UOp u) {
  return u.Is(Op::REDUCE) && u.reduce_op() == Op::ADD && ir::IsFloat(u.dtype());
}

bool Reads(const ir::UOpContext& ctx, UOp u) {
  return std::ranges::any_of(ir::Toposort(ctx, u), [](UOp x) { return x.Is(Op::LOAD); });
}

// Whether the terms are products of two elements that are read, maybe masked. Squares are none:
// there is one element.
bool IsOfProducts(const ir::UOpContext& ctx, UOp sum) {
  UOp term = sum.src(0);
  for (;;) {
    if (term.Is(Op::CAST)) {
      term = term.src(0);
    } else if (term.Is(Op::WHERE) && (term.src(1).Is(Op::CONST) || term.src(2).Is(Op::CONST))) {
      term = term.src(term.src(1).Is(Op::CONST) ? 2 : 1);
    } else {
      break;
    }
  }
  return term.Is(Op::MUL) && term.src(0) != term.src(1) && Reads(ctx, term.src(0)) &&
         Reads(ctx, term.src(1));
}

// The loops that a reduction closes, outermost first.
std::vector<UOp> LoopsOfSum(UOp sum) {
  std::vector<UOp> out;
  for (UOp r : sum.closed()) {
    if (r.axis_type() == AxisType::REDUCE) out.push_back(r);
  }
  std::ranges::sort(out, {}, [](UOp r) { return r.axis_id(); });
  return out;
}

std::vector<int64_t> SizesOf(std::span<const UOp> loops) {
  std::vector<int64_t> out;
  for (UOp r : loops) out.push_back(r.src(0).Is(Op::CONST) ? r.src(0).const_int() : -1);
  return out;
}

// What one iteration of the loops adds to an accumulator.
int64_t TermsOf(UOp sum) {
  int64_t out = 1;
  for (UOp r : sum.closed()) {
    if (r.axis_type() == AxisType::UNROLL) out *= std::max<int64_t>(1, r.src(0).const_int());
  }
  return out;
}

// The largest divisor of n that is at most `most` and at least half of it, or else `most`.
int64_t StepsOf(int64_t n, int64_t most) {
  for (int64_t steps = most; n > 0 && 2 * steps > most; --steps) {
    if (n % steps == 0) return steps;
  }
  return most;
}

// The new loops that replace the loops of one or more sums over the same terms.
struct Cut {
  std::vector<UOp> outside, inside;
};

class Chunker {
 public:
  Chunker(ir::UOpContext& ctx, const Target& target) : ctx_(ctx), target_(target) {}

  UOp Run(UOp sink) {
    chunks_ = LongSums(ctx_, sink, target_);
    if (chunks_.empty()) return sink;
    const std::vector<UOp> order = ir::Toposort(ctx_, sink);
    for (UOp u : order) {
      if (u.Is(Op::RANGE)) next_id_ = std::max(next_id_, u.axis_id() + 1);
    }
    for (UOp u : order) {
      const auto mine = chunks_.find(u.id());
      if (mine == chunks_.end()) continue;
      const std::vector<UOp> loops = LoopsOfSum(u);
      if (!cuts_.contains(loops[0].id())) CutLoops(loops, mine->second);
    }
    return Rebuild(ctx_, sink, [&](UOp u, std::span<const UOp> srcs) { return New(u, srcs); });
  }

 private:
  void CutLoops(std::span<const UOp> loops, const SumChunks& chunks) {
    Cut& cut = cuts_[loops[0].id()];
    for (size_t i = 0; i < loops.size(); ++i) {
      const UOp loop = loops[i], size = loop.src(0);
      if (i + 1 == chunks.inside && chunks.steps > 0) {
        const int64_t steps = chunks.steps;
        const UOp steps_of_loop = ctx_.Idx(steps);
        const bool fixed = size.Is(Op::CONST);
        const UOp count = fixed
                              ? ctx_.Idx((size.const_int() + steps - 1) / steps)
                              : ir::Alu(ctx_, Op::FLOORDIV,
                                        {IndexSum(ctx_, size, ctx_.Idx(steps - 1)), steps_of_loop});
        const UOp chunk = ir::Range(ctx_, count, loop.axis_id(), AxisType::REDUCE);
        const UOp first = IndexProduct(ctx_, chunk, steps_of_loop);
        UOp mine = steps_of_loop;
        if (!fixed || size.const_int() % steps != 0) {
          // The last chunk is shorter: it has -max(-steps, first - size) iterations.
          const UOp left = IndexSum(ctx_, first, IndexProduct(ctx_, size, ctx_.Idx(-1)));
          mine = IndexProduct(ctx_, ir::Alu(ctx_, Op::MAX, {ctx_.Idx(-steps), left}), ctx_.Idx(-1));
        }
        const UOp step = ir::Range(ctx_, mine, next_id_++, AxisType::REDUCE);
        cut.outside.push_back(chunk);
        cut.inside.push_back(step);
        replaced_[loop.id()] = IndexSum(ctx_, first, step);
      } else if (i >= chunks.inside) {
        const UOp fresh = ir::Range(ctx_, size, next_id_++, AxisType::REDUCE);
        cut.inside.push_back(fresh);
        replaced_[loop.id()] = fresh;
      } else {
        cut.outside.push_back(loop);
      }
    }
  }

  UOp New(UOp u, std::span<const UOp> srcs) {
    if (const auto it = replaced_.find(u.id()); it != replaced_.end()) return it->second;
    if (!chunks_.contains(u.id())) return rules::WithIndexSources(ctx_, u, srcs);
    const Cut& cut = cuts_.at(LoopsOfSum(u)[0].id());
    // The terms of an iteration belong to the chunk. Lanes are joined once, at the end.
    std::vector<UOp> inside = {srcs[0]}, outside;
    inside.insert(inside.end(), cut.inside.begin(), cut.inside.end());
    std::vector<UOp> lanes;
    for (UOp r : u.closed()) {
      if (r.axis_type() == AxisType::REDUCE) continue;
      (r.axis_type() == AxisType::UNROLL ? inside : lanes).push_back(r);
    }
    outside.push_back(ctx_.Make(Op::REDUCE, u.dtype(), inside, u.arg(), u.tag()));
    outside.insert(outside.end(), cut.outside.begin(), cut.outside.end());
    outside.insert(outside.end(), lanes.begin(), lanes.end());
    return ctx_.Make(Op::REDUCE, u.dtype(), outside, u.arg(), u.tag());
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  absl::flat_hash_map<uint32_t, SumChunks> chunks_;  // by id of a sum
  int64_t next_id_ = 0;
  absl::flat_hash_map<uint32_t, Cut> cuts_;  // by id of the outermost old loop
  ir::Substitution replaced_;                // old loops
};

}  // namespace

std::optional<SumChunks> ChunksOfSum(std::span<const int64_t> loops, int64_t terms,
                                     bool of_products) {
  double all = static_cast<double>(terms);
  bool fixed = true;
  for (const int64_t n : loops) {
    all *= static_cast<double>(n);
    fixed &= n >= 0;
  }
  int64_t most = kChunkTerms;
  while (fixed && static_cast<double>(most) * static_cast<double>(most) < all) most *= 2;
  if (fixed && all < 2 * static_cast<double>(most)) return std::nullopt;
  if (of_products && (!fixed || all < kLeastProducts)) return std::nullopt;
  int64_t inside = terms;
  size_t at = loops.size();
  while (at > 0 && loops[at - 1] >= 0 && loops[at - 1] <= most / inside) inside *= loops[--at];
  if (at == 0) return std::nullopt;
  const int64_t steps = StepsOf(loops[at - 1], most / std::max<int64_t>(inside, 1));
  if (steps > 1) return SumChunks{at, steps};
  if (at == loops.size()) return std::nullopt;  // the terms of one iteration are a chunk
  return SumChunks{at, 0};
}

absl::flat_hash_map<uint32_t, SumChunks> LongSums(ir::UOpContext& ctx, UOp sink,
                                                  const Target& target) {
  absl::flat_hash_map<uint32_t, std::vector<UOp>> closers;  // by id of a loop
  absl::flat_hash_map<uint32_t, SumChunks> out;
  std::vector<UOp> sums;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::SCAN)) return {};
    if (!u.Is(ir::kClosingOps)) continue;
    for (UOp r : u.closed()) closers[r.id()].push_back(u);
    if (!IsFloatSum(u)) continue;
    const std::vector<UOp> loops = LoopsOfSum(u);
    const bool of_products = IsOfProducts(ctx, u);
    if (of_products && !MachineOf(target).sums.cuts_products) continue;
    // A sum of products of a symbolic size is cut if its largest size makes it long.
    const std::vector<int64_t> sizes = SizesOf(loops);
    double most = static_cast<double>(TermsOf(u));
    for (UOp r : loops) most *= static_cast<double>(ctx.BoundsOf(r.src(0)).max);
    const bool may_be_long = most >= kLeastProducts && std::ranges::find(sizes, -1) != sizes.end();
    const auto chunks = ChunksOfSum(sizes, TermsOf(u), of_products && !may_be_long);
    if (!chunks) continue;
    out[u.id()] = *chunks;
    sums.push_back(u);
  }
  for (UOp u : sums) {
    const std::vector<UOp> loops = LoopsOfSum(u);
    const SumChunks chunks = out.at(u.id());
    const auto is_cut_alike = [&](UOp other) {
      if (!IsFloatSum(other) || LoopsOfSum(other) != loops) return false;
      const auto its = out.find(other.id());
      return its != out.end() && its->second == chunks;
    };
    const bool alone = std::ranges::all_of(
        loops, [&](UOp r) { return std::ranges::all_of(closers.at(r.id()), is_cut_alike); });
    if (!alone) out.erase(u.id());
  }
  return out;
}

std::string Text(UOp sum, const SumChunks& chunks) {
  const std::vector<int64_t> sizes = SizesOf(LoopsOfSum(sum));
  int64_t inside = TermsOf(sum);
  for (size_t i = chunks.inside; i < sizes.size(); ++i) inside *= sizes[i];
  std::string out = Cat("in chunks of ", inside * std::max<int64_t>(chunks.steps, 1));
  const int64_t cut = sizes[chunks.inside - 1];
  const bool has_short_chunks = chunks.steps > 0 && (cut < 0 || cut % chunks.steps != 0);
  // Each iteration of the loops around the one that is cut begins with a chunk.
  if (has_short_chunks && chunks.inside > 1) Append(out, " of ", cut < 0 ? cut : cut * inside);
  return out;
}

UOp ChunkLongSums(ir::UOpContext& ctx, UOp sink, const Target& target) {
  return Chunker(ctx, target).Run(sink);
}

}  // namespace uopd::codegen
