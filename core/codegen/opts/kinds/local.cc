// SPDX-License-Identifier: MIT
// LOCAL, GROUP and GROUPTOP: iterations of an axis become threads of a block. NOLOCALS: there are
// none.
#include <bit>

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::UOp;

// The part of the axis that becomes threads.
absl::StatusOr<Piece> ThreadsOf(const Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, PieceOf(adding, opt));
  if (adding.state.no_locals) return Bad(opt, "the kernel has NOLOCALS");
  if (adding.kernel().in_order) return Bad(opt, "a statement loads what another one stores");
  if (!std::has_single_bit(static_cast<uint64_t>(piece.amount)))
    return Bad(opt, "the amount is no power of two");
  return piece;
}

absl::Status AddLocal(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, ThreadsOf(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (axis.is_reduce) return Bad(opt, "the axis is reduced; use GROUP");
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  SplitOff(adding.ctx, axis, {AxisType::LOCAL, piece.amount, false}, piece.divides);
  return absl::OkStatus();
}

absl::Status AddGroup(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, ThreadsOf(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce) return Bad(opt, "the axis is not reduced; use LOCAL");
  for (UOp u : adding.kernel().order) {
    if (!PlanKernel::Closes(u, axis.range)) continue;
    if (adding.state.IsMmaSum(u)) return Bad(opt, "a warp adds up the axis already (TC)");
    if (u.Is(ir::Op::STAGE) && !ir::Reaches(adding.ctx, u.src(1), axis.range))
      return Bad(opt, "iterations along the axis stage the same element");
  }
  const bool top = opt.kind == OptKind::kGroupTop;
  if (top && axis.size < 0) return Bad(opt, "the axis has a symbolic size");
  SplitOff(adding.ctx, axis, {AxisType::LOCAL, piece.amount, top}, piece.divides);
  return absl::OkStatus();
}

absl::Status AddNoLocals(Adding& adding, const Opt& opt) {
  if (adding.state.no_locals) return Bad(opt, "the kernel has NOLOCALS already");
  for (const PlanAxis& axis : adding.state.axes) {
    if (axis.HasThreads()) return Bad(opt, "the kernel has threads already");
  }
  adding.state.no_locals = true;
  return absl::OkStatus();
}

std::vector<TriedAmount> LocalAmounts(const SearchSpace&, const AxisInfo& axis,
                                      const Target& target) {
  if (axis.is_reduce) return {};
  return FittingParts({2, 4, 8, 16, 32, 64, 128, 256}, axis);
}

std::vector<TriedAmount> GroupAmounts(const SearchSpace&, const AxisInfo& axis,
                                      const Target& target) {
  if (!axis.is_reduce) return {};
  return FittingParts({4, 8, 16, 32, 64, 256}, axis);
}

std::vector<Opt> NoLocalsMoves(const MoveSource& from) {
  constexpr OptKind kWithThreads[] = {OptKind::kNoLocals, OptKind::kLocal, OptKind::kGroup,
                                      OptKind::kGroupTop, OptKind::kTensorCore};
  if (from.Has(kWithThreads)) return {};
  return {{OptKind::kNoLocals}};
}

}  // namespace

extern const OptRow kLocalRow, kGroupRow, kGroupTopRow, kNoLocalsRow;

const OptRow kLocalRow = {
    .kind = OptKind::kLocal,
    .name = "LOCAL",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .axes_prose = "output",
    .effect = "splits off an inner part: threads of a block",
    .limits = "a power of two",
    .add = AddLocal,
    .amounts = LocalAmounts,
};

const OptRow kGroupRow = {
    .kind = OptKind::kGroup,
    .name = "GROUP",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .axes_prose = "of a reduction or a stage",
    .effect =
        "splits off an inner part: threads of a block that share a result, for neighbouring "
        "iterations",
    .limits = "a power of two",
    .add = AddGroup,
    .amounts = GroupAmounts,
};

const OptRow kGroupTopRow = {
    .kind = OptKind::kGroupTop,
    .name = "GROUPTOP",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .axes_prose = "of a reduction or a stage",
    .effect = "splits off an outer part: the same, and each thread has a stretch of the axis",
    .limits = "a power of two; no symbolic size",
    .add = AddGroup,
    .amounts = GroupAmounts,
};

const OptRow kNoLocalsRow = {
    .kind = OptKind::kNoLocals,
    .name = "NOLOCALS",
    .machines = Machines::kGpus,
    .axes_prose = "–",
    .effect = "a block has one thread",
    .limits = "before LOCAL and GROUP",
    .add = AddNoLocals,
    .moves = NoLocalsMoves,
};

}  // namespace uopd::codegen
