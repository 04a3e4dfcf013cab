// SPDX-License-Identifier: MIT
#include "core/codegen/opts/choose/draft_opts.h"

#include <algorithm>
#include <optional>

#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/sum_forms.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;
using ir::UOpContext;

// The most copies of a draft's tile. Each copy has an accumulator; fewer of them do not hide the
// latency of the additions. The larger number is for sums that would have another order with fewer
// copies (passes/unroll.cc).
constexpr int64_t kDraftCopies = 4, kChainedCopies = 8;

// Replaces the amounts by divisors of them whose product is the largest one up to `most`.
// Divisors, because what divides an axis needs no padding.
class SmallTile {
 public:
  SmallTile(std::span<const int64_t> amounts, int64_t most)
      : amounts_(amounts), most_(most), now_(amounts.size(), 1), best_(now_) {}

  std::vector<int64_t> Choose() {
    Try(0, 1);
    return best_;
  }

 private:
  void Try(size_t i, int64_t copies) {
    if (i == amounts_.size()) {
      if (copies > best_copies_) best_copies_ = copies, best_ = now_;
      return;
    }
    for (int64_t n = 1; n <= amounts_[i] && copies * n <= most_; ++n) {
      if (amounts_[i] % n != 0) continue;
      now_[i] = n;
      Try(i + 1, copies * n);
    }
    now_[i] = 1;
  }

  const std::span<const int64_t> amounts_;
  const int64_t most_;
  std::vector<int64_t> now_, best_;
  int64_t best_copies_ = 1;
};

bool LoadsWhatItStores(UOpContext& ctx, UOp sink) {
  std::vector<UOp> stored;
  for (UOp store : Stores(ctx, sink)) stored.push_back(store.src(0).src(0));
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(ir::Op::LOAD) && std::ranges::find(stored, u.src(0).src(0)) != stored.end())
      return true;
  }
  return false;
}

// Whether some access is gated because its axis is shorter than a tile (or may be). A gated product
// is rounded before it is added. So a tile without the gate computes other bits.
bool IsGated(UOpContext& ctx, UOp sink, std::span<const Opt> opts) {
  if (LoadsWhatItStores(ctx, sink)) return true;
  const std::vector<UOp> axes = Axes(ctx, sink);
  std::vector<int64_t> tile(axes.size(), 1);
  std::vector<bool> changes(axes.size(), false);
  for (const Opt& opt : opts) {
    if (opt.kind != OptKind::kUpcast && opt.kind != OptKind::kVector) continue;
    tile[static_cast<size_t>(opt.axis)] *= opt.amount;
    if (opt.kind == OptKind::kUpcast) changes[static_cast<size_t>(opt.axis)] = true;
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    const UOp size = axes[a].src(0);
    if (changes[a] && (!size.Is(ir::Op::CONST) || size.const_int() < tile[a])) return true;
  }
  return false;
}

// The order in which the sums of the kernel with these opts add up. Nullopt: the opts cannot be
// applied, or nobody waits for the kernel any more.
std::optional<std::vector<std::string>> SumsOf(UOpContext& ctx, UOp sink, const Target& target,
                                               std::span<const Opt> opts) {
  const auto applied = ApplyOpts(ctx, sink, target, opts);
  if (!applied.ok()) return std::nullopt;
  // If there are several sums, it is not known which of them becomes which.
  const std::vector<UOp> before = FloatSums(ctx, sink);
  const std::vector<int64_t> axes =
      before.size() == 1 ? AxesOfSum(before[0]) : std::vector<int64_t>();
  const SumForms forms(ctx, *applied, target);
  std::vector<std::string> out;
  for (UOp sum : forms.sums()) out.push_back(forms.Of(sum, axes));
  std::ranges::sort(out);
  return out;
}

// The opts with these amounts of the UPCASTs, and without prefetches. `rolls_loops`: also without
// the UNROLLs of a part of an axis, so that its loop has a step for each term. Nullopt: the opts do
// not apply.
std::optional<std::vector<Opt>> WithTile(UOpContext& ctx, UOp sink, const Target& target,
                                         std::span<const Opt> opts,
                                         std::span<const int64_t> amounts, bool rolls_loops) {
  OptPlan plan(ctx, sink, target);
  size_t upcast = 0;
  for (Opt opt : opts) {
    if (opt.kind == OptKind::kPrefetch) continue;
    if (rolls_loops && opt.kind == OptKind::kUnroll && opt.amount != 0) continue;
    if (opt.kind == OptKind::kUpcast) opt.amount = amounts[upcast++];
    if (opt.kind == OptKind::kUpcast && opt.amount == 1) continue;
    if (!plan.Add(opt).ok()) return std::nullopt;
  }
  return plan.opts();
}

}  // namespace

std::vector<Opt> DraftOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                           std::span<const Opt> opts) {
  std::vector<Opt> given(opts.begin(), opts.end());
  // Opts after an ONLINE count other axes.
  if (!given.empty() && given[0].kind == OptKind::kOnline) return given;
  const std::vector<ir::UOp> axes = Axes(ctx, sink);
  const bool reduces =
      std::ranges::any_of(axes, [](ir::UOp r) { return r.axis_type() == ir::AxisType::REDUCE; });
  // Tiles of other kernels are squares that registers transpose, or are short. Matrix instructions
  // of whole tiles need their rows, and are short too.
  const bool whole_tiles = std::ranges::any_of(target.matrix_instructions,
                                               [](const MatrixInstruction& i) { return i.m > 1; });
  if (!reduces ||
      (whole_tiles && std::ranges::find(given, OptKind::kTensorCore, &Opt::kind) != given.end()))
    return given;
  std::vector<int64_t> amounts;
  int64_t copies = 1;
  for (const Opt& opt : given) {
    if (opt.kind != OptKind::kUpcast) continue;
    if (opt.amount == 0) return given;
    amounts.push_back(opt.amount);
    copies *= opt.amount;
  }
  if (copies <= kDraftCopies || IsGated(ctx, sink, given)) return given;
  const auto sums = SumsOf(ctx, sink, target, given);
  if (!sums) return given;
  for (const int64_t most : {kDraftCopies, kChainedCopies}) {
    if (copies <= most) break;
    const std::vector<int64_t> small = SmallTile(amounts, most).Choose();
    for (const bool rolls_loops : {false, true}) {
      auto out = WithTile(ctx, sink, target, given, small, rolls_loops);
      if (out && SumsOf(ctx, sink, target, *out) == sums) return *std::move(out);
    }
  }
  return given;
}

}  // namespace uopd::codegen
