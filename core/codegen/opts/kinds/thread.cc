// SPDX-License-Identifier: MIT
// THREAD: iterations of an output axis become the threads of a launch, on CPUs.
#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "core/codegen/cpu/make/split_scan.h"
#include "core/codegen/launch_size.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/graph.h"
#include "core/ir/shared_array.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kMostParts = 8;  // of the axis, for each thread
constexpr size_t kMostThreadAmounts = 5;

// One thread per iteration of a whole axis of symbolic size. The number is known at launch.
absl::Status AddWholeAxis(Adding& adding, const Opt& opt) {
  PlanAxis& axis = adding.Axis(opt);
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  std::vector<std::string> variables;
  for (const ir::UOp v : ir::Variables(adding.ctx, adding.kernel().sink))
    variables.emplace_back(v.text());
  if (const auto size = LaunchSize::Of(axis.symbolic, variables); !size.ok())
    return Bad(opt, StatusText(size.status()));
  axis.is_threads = adding.state.threaded = true;
  return absl::OkStatus();
}

absl::Status AddThread(Adding& adding, const Opt& opt) {
  PlanAxis& axis = adding.Axis(opt);
  if (axis.is_reduce) return Bad(opt, "the axis is reduced");
  if (adding.state.threaded) return Bad(opt, "the kernel has THREADs already");
  if (!adding.kernel().InEveryEnd(axis.range))
    return Bad(opt, "a store is outside of the loop over the axis");
  UOPD_TRY(CheckSplits(adding, opt));
  if (opt.amount == 0 && axis.size < 0) return AddWholeAxis(adding, opt);
  UOPD_ASSIGN(const Piece piece, PieceOf(adding, opt));
  const Target& target = adding.target;
  if (axis.is_scanned) {
    if (const std::string why = MaybeNoSplitScan(adding.ctx, adding.kernel().sink); !why.empty())
      return Bad(opt, why);
    const auto scans =
        std::ranges::count_if(adding.kernel().order, [](ir::UOp u) { return u.Is(ir::Op::SCAN); });
    if (scans * (piece.amount + 1) > target.shared_bytes / ir::kSharedElement)
      return Bad(opt, Cat("the threads share ", target.shared_bytes, " bytes"));
  } else if (piece.amount > kMostParts * target.threads) {
    return Bad(opt, Cat("the target has ", target.threads, " threads"));
  }
  if (axis.size < 0)
    return Bad(opt, "the axis has a symbolic size; THREAD takes only the whole axis (amount 0)");
  adding.state.threaded = true;
  SplitOff(adding.ctx, axis, {ir::AxisType::THREAD, piece.amount, true}, piece.divides);
  return absl::OkStatus();
}

std::vector<TriedAmount> ThreadAmounts(const SearchSpace&, const AxisInfo& axis,
                                       const Target& target) {
  if (axis.is_reduce || axis.size == 1 || target.threads < 2) return {};
  if (axis.size == 0) return {0};  // one thread per iteration
  // Several parts for each thread, and the largest divisors of the axis that the target has enough
  // threads for.
  std::vector<TriedAmount> out;
  for (const int64_t parts : {kMostParts, kMostParts / 2, kMostParts / 4}) {
    if (axis.size % (parts * target.threads) != 0) continue;
    out.emplace_back(parts * target.threads);
    break;
  }
  for (int64_t n = std::min<int64_t>(target.threads, axis.size);
       n > 1 && out.size() < kMostThreadAmounts; --n) {
    if (axis.size % n == 0) out.emplace_back(n);
  }
  return FittingParts(std::move(out), axis, /*by_number=*/true);
}

}  // namespace

extern const OptRow kThreadRow;

const OptRow kThreadRow = {
    .kind = OptKind::kThread,
    .name = "THREAD",
    .machines = Machines::kCpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .length = OptRow::Length::kNot,
    .axes_prose = "output, around every store",
    .effect = "splits off an outer part: the value of SPECIAL; n becomes `grid[0]`",
    .limits =
        "up to eight times the target's threads; once per kernel; a symbolic axis only as a whole "
        "(0); running sums: "
        "see below",
    .add = AddThread,
    .amounts = ThreadAmounts,
    .once = true,
    .slides = true,
};

}  // namespace uopd::codegen
