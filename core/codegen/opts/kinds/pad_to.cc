// SPDX-License-Identifier: MIT
// PADTO: the rest of an axis is rounded up, so that what splits it divides it.
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kMostPadded = 4;      // the axis may become so many times as long
constexpr int64_t kMostPaddedMove = 2;  // that the search tries

int64_t RoundUp(int64_t size, int64_t n) { return (size + n - 1) / n * n; }

absl::Status AddPadTo(Adding& adding, const Opt& opt) {
  UOPD_TRY(CheckSplits(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (axis.size < 0) return Bad(opt, "the axis has a symbolic size");
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  if (opt.amount < 2) return Bad(opt, "the amount is below 2");
  if (axis.size % opt.amount == 0) return Bad(opt, "the amount divides the axis");
  const int64_t size = RoundUp(axis.size, opt.amount);
  if (size >= kMostPadded * axis.size) return Bad(opt, "the axis would be mostly padding");
  axis.size = size;
  axis.padded = true;
  return absl::OkStatus();
}

// Whole warps, tiles of matrix instructions and pieces of a sum.
std::vector<TriedAmount> PadToAmounts(const SearchSpace&, const AxisInfo& axis,
                                      const Target& target) {
  std::vector<TriedAmount> out;
  for (const int64_t n : {16, 32, 64, 128}) {
    const bool fits = axis.size > 1 && axis.size % n != 0;
    if (fits && RoundUp(axis.size, n) < kMostPaddedMove * axis.size) out.emplace_back(n);
  }
  return out;
}

}  // namespace

extern const OptRow kPadToRow;

const OptRow kPadToRow = {
    .kind = OptKind::kPadTo,
    .name = "PADTO",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kNumber, "n"},
    .axes_prose = "any",
    .effect = "the rest of the axis is rounded up to a multiple of n",
    .limits = "less than four times the axis",
    .add = AddPadTo,
    .amounts = PadToAmounts,
};

}  // namespace uopd::codegen
