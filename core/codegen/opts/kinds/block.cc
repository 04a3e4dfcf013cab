// SPDX-License-Identifier: MIT
// BLOCK: the loop over an axis becomes two, one over panels and one inside of a panel
// (cpu/make/keep_partials.h).
#include <string>

#include "core/codegen/machine.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

// Why the axis cannot be cut into panels; empty if it can.
std::string MaybeNoPanels(const Adding& adding, const PlanAxis& axis) {
  const PlanKernel& kernel = adding.kernel();
  const std::vector<PlanAxis>& axes = adding.state.axes;
  if (axis.size < 0) return "the axis has a symbolic size";
  if (axis.HasPanel()) return "the axis has a BLOCK already";
  if (kernel.has_stages) return "the kernel stages values";
  if (kernel.in_place) return "the kernel loads what it stores";
  for (const PlanAxis& a : axes) {
    if (a.is_scanned) return "the kernel has running sums";
  }
  if (!axis.is_reduce) return "";
  for (UOp u : kernel.order) {
    if (!PlanKernel::Closes(u, axis.range)) continue;
    if (ir::IsSmallFloat(u.dtype())) return "partial sums of small floats would be rounded";
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].is_reduce && kernel.Along(u, i))
        return "the sums are inside of another reduction";
    }
    for (UOp n : ir::Toposort(adding.ctx, u.srcs().first(1))) {
      if (n.Is(ir::Op::REDUCE)) return "the sums need another reduction";
    }
  }
  return "";
}

absl::Status AddBlock(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, PieceOf(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce && !MachineOf(adding.target).keeps_partials)
    return Bad(opt, "the axis is not reduced");
  if (const std::string why = MaybeNoPanels(adding, axis); !why.empty()) return Bad(opt, why);
  SplitOff(
      adding.ctx, axis,
      {.type = axis.range.axis_type(), .amount = piece.amount, .outer = false, .in_panel = true},
      piece.divides);
  return absl::OkStatus();
}

// Whole loops around few elements, and steps whose operands stay in the first-level cache.
std::vector<TriedAmount> BlockAmounts(const SearchSpace&, const AxisInfo& axis,
                                      const Target& target) {
  // The steps of a sum whose operands the threads of a block copy at a time.
  if (!MachineOf(target).keeps_partials)
    return axis.is_reduce ? FittingParts({2, 4, 8, 16, 32}, axis) : std::vector<TriedAmount>();
  if (axis.is_reduce) return FittingParts({64, 128}, axis);
  // The tiles of an axis, not its elements.
  if (axis.size > 0) return {8, 0};
  return {8};
}

}  // namespace

extern const OptRow kBlockRow;

const OptRow kBlockRow = {
    .kind = OptKind::kBlock,
    .name = "BLOCK",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .length = OptRow::Length::kNot,
    .axes_prose = "any; with blocks of threads, of a reduction",
    .effect = "splits off an inner part: n iterations of the loop that is left are a panel",
    .limits =
        "see below; after the other opts of the axis, once per axis. It is no block of threads: "
        "the name is older than these, and keys of caches have it",
    .add = AddBlock,
    .makes_stages = true,
    .amounts = BlockAmounts,
};

}  // namespace uopd::codegen
