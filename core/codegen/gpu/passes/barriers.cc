// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/barriers.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kNone = SIZE_MAX;

class Placer {
 public:
  explicit Placer(std::span<const UOp> lines) : lines_(lines), parent_(lines.size(), kNone) {
    std::vector<size_t> open;
    absl::flat_hash_set<uint32_t> pipelined;  // arrays whose barriers are there (pipeline.h)
    for (UOp u : lines) {
      if (u.Is({Op::ASYNC_COPY, Op::BULK_COPY}))
        pipelined.insert(ir::MaybeBaseOf(u.src(0).src(0)).id());
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      parent_[i] = open.empty() ? kNone : open.back();
      if (lines[i].Is(Op::RANGE)) {
        open.push_back(i);
      } else if (lines[i].Is(Op::END)) {
        for (size_t k = 1; k < lines[i].n_src(); ++k) {
          end_[open.back()] = i;
          open.pop_back();
        }
      }
      if (!lines[i].Is({Op::LOAD, Op::STORE, Op::MATRIX_LOAD, Op::GROUP_MMA})) continue;
      for (UOp index : lines[i].srcs()) {
        if (!index.Is(Op::INDEX)) continue;
        const UOp base = ir::MaybeBaseOf(index.src(0));
        if (!base || !ir::IsShared(base) || pipelined.contains(base.id())) continue;
        arrays_[i].push_back(base.id());
        for (size_t loop : open) shares_.insert(loop);
      }
    }
  }

  // The lines in front of which a barrier stands.
  std::set<size_t> Run() {
    if (arrays_.empty()) return {};
    // Each turn adds one barrier, and accesses behind it start anew.
    for (bool changed = true; changed;) {
      pending_.clear();
      changed = !Walk(0, lines_.size());
    }
    return barriers_;
  }

 private:
  struct Access {
    size_t line;
    bool stores;
    int pass;  // of the walk: an iteration of the loops around it
  };

  // Walks the lines from `begin` to `end`, each loop twice, so that an iteration meets the next
  // one. False if it has placed a barrier.
  bool Walk(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (barriers_.contains(i) || lines_[i].Is(Op::BARRIER)) pending_.clear();
      if (lines_[i].Is(Op::RANGE)) {
        const size_t last = end_.at(i);
        for (int turn = 0; turn < (shares_.contains(i) ? 2 : 1); ++turn) {
          if (turn > 0) ++pass_;
          if (!Walk(i + 1, last)) return false;
        }
        i = last;
        continue;
      }
      const auto it = arrays_.find(i);
      if (it == arrays_.end()) continue;
      const bool stores = lines_[i].Is(Op::STORE);
      for (const uint32_t array : it->second) {
        std::vector<Access>& before = pending_[array];
        for (const Access& a : before) {
          const bool one_filling = a.stores && stores && a.pass == pass_;
          if (!(a.stores || stores) || one_filling) continue;
          barriers_.insert(Place(a.line, i));
          return false;
        }
        before.push_back({i, stores, pass_});
      }
    }
    return true;
  }

  std::vector<size_t> LoopsAround(size_t line) const {
    std::vector<size_t> out;
    for (size_t at = parent_[line]; at != kNone; at = parent_[at]) out.push_back(at);
    std::reverse(out.begin(), out.end());
    return out;
  }

  // The line in front of which the barrier between `first` and `second` stands: `second`, or the
  // outermost loop around it that `first` is not in.
  size_t Place(size_t first, size_t second) const {
    const std::vector<size_t> a = LoopsAround(first), b = LoopsAround(second);
    size_t common = 0;
    while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
    return common < b.size() ? b[common] : second;
  }

  const std::span<const UOp> lines_;
  std::vector<size_t> parent_;                                  // line -> the loop that it is in
  absl::flat_hash_map<size_t, size_t> end_;                     // RANGE -> its END
  absl::flat_hash_map<size_t, std::vector<uint32_t>> arrays_;   // accesses -> their arrays
  absl::flat_hash_set<size_t> shares_;                          // loops with such accesses
  absl::flat_hash_map<uint32_t, std::vector<Access>> pending_;  // since the last barrier, by array
  std::set<size_t> barriers_;
  int pass_ = 0;
};

// Every loop has the same size in all threads of a block.
absl::Status CheckLoops(std::span<const UOp> lines) {
  absl::flat_hash_set<uint32_t> varies;  // values that differ between threads
  for (UOp u : lines) {
    bool mine = u.Is(Op::SPECIAL) && u.ints()[0] == static_cast<int64_t>(ir::AxisType::LOCAL);
    mine |= u.Is({Op::LOAD, Op::MATRIX_LOAD, Op::GROUP_MMA});
    for (UOp s : u.srcs()) mine |= varies.contains(s.id());
    if (u.Is(Op::RANGE)) {
      if (varies.contains(u.src(0).id()))
        return UOPD_BUG("threads of a block run a loop a different number of times");
      mine = false;
    }
    if (mine && u.dtype() != ir::Dtype::Void) varies.insert(u.id());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UOp> AddBarriers(ir::UOpContext& ctx, UOp linear, int64_t threads) {
  if (threads == 1) return linear;
  const std::set<size_t> places = Placer(linear.srcs()).Run();
  const auto has = [&](Op op) {
    return std::ranges::any_of(linear.srcs(), [&](UOp u) { return u.Is(op); });
  };
  // What a GROUP_MMA reads behind a barrier was stored in another way than it reads.
  const bool stores = std::ranges::any_of(linear.srcs(), [](UOp u) {
    if (!u.Is({Op::STORE, Op::ASYNC_COPY})) return false;
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    return base && ir::IsShared(base);
  });
  const bool fences = has(Op::GROUP_MMA) && stores;
  if (places.empty() && !has(Op::SHUFFLE) && !has(Op::GROUP_MMA)) return linear;
  UOPD_TRY(CheckLoops(linear.srcs()));
  std::vector<UOp> lines;
  for (size_t i = 0; i < linear.n_src(); ++i) {
    const bool is_barrier = linear.src(i).Is(Op::BARRIER);
    if (fences && (places.contains(i) || is_barrier))
      lines.push_back(ctx.Make(Op::SHARED_FENCE, ir::Dtype::Void, {lines.back()}));
    if (places.contains(i)) lines.push_back(ctx.Make(Op::BARRIER, ir::Dtype::Void, {lines.back()}));
    lines.push_back(linear.src(i));
  }
  return ctx.Make(Op::LINEAR, ir::Dtype::Void, lines);
}

}  // namespace uopd::codegen
