// SPDX-License-Identifier: MIT
// VECTOR: iterations of an axis become the lanes of one value.
#include "core/base/text.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"

namespace uopd::codegen {
namespace {

absl::Status AddVector(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, PieceOf(adding, opt, /*pads=*/true));
  if (adding.state.warp_rows) return Bad(opt, "a matrix instruction computes the axis");
  const int64_t lanes = piece.amount;
  if (lanes > adding.target.vector_lanes || (lanes & (lanes - 1)) != 0)
    return Bad(opt, Cat("the amount is no power of two up to ", adding.target.vector_lanes));
  PlanAxis& axis = adding.Axis(opt);
  for (const PlanAxis::Part& p : axis.parts) {
    if (p.type == ir::AxisType::VECTOR) return Bad(opt, "the axis is a vector already");
    if (p.type != ir::AxisType::THREAD)
      return Bad(opt, "VECTOR comes before UPCAST, UNROLL, LOCAL and GROUP of its axis");
  }
  axis.is_vector |= lanes > 1;
  SplitOff(adding.ctx, axis, {ir::AxisType::VECTOR, lanes, false}, piece.divides);
  return absl::OkStatus();
}

std::vector<TriedAmount> VectorAmounts(const SearchSpace&, const AxisInfo& axis,
                                       const Target& target) {
  // From one register of 8-byte elements to two registers of 4-byte elements.
  std::vector<TriedAmount> out;
  for (int64_t lanes = target.vector_bytes / 8; lanes > 0 && lanes <= target.vector_bytes / 2;
       lanes *= 2) {
    if (lanes > 1) out.emplace_back(lanes);
  }
  return FittingParts(std::move(out), axis, /*by_number=*/true);
}

}  // namespace

extern const OptRow kVectorRow;

const OptRow kVectorRow = {
    .kind = OptKind::kVector,
    .name = "VECTOR",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .axes_prose = "any",
    .effect = "splits off an inner part: lanes of one value",
    .limits =
        "a power of two up to `Target::vector_lanes`; before UPCAST and UNROLL of the axis; no "
        "value may depend on "
        "two vector axes",
    .add = AddVector,
    .makes_lanes = true,
    .amounts = VectorAmounts,
    .slides = true,
};

}  // namespace uopd::codegen
