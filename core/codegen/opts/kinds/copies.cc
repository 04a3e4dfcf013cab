// SPDX-License-Identifier: MIT
// UPCAST and UNROLL: copies of what the loop does for several iterations of an axis.
#include "core/base/text.h"
#include "core/codegen/gpu/product/warp_product.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kMostCopies = 64;  // an opt makes at most so many copies of an axis

absl::StatusOr<Piece> CopiesOf(const Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, PieceOf(adding, opt));
  if (adding.Axis(opt).HasPanel())
    return Bad(opt, "UPCAST and UNROLL come before BLOCK of their axis");
  if (piece.amount > kMostCopies) return Bad(opt, Cat("the amount is over ", kMostCopies));
  return piece;
}

absl::Status AddUpcast(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, CopiesOf(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (axis.is_reduce) return Bad(opt, "the axis is reduced; use UNROLL");
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  int64_t amount = piece.amount;
  if (amount > 2 && amount % 2 == 0 && HoldsQuadBit(adding.state, opt.axis)) {
    SplitOff(adding.ctx, axis, {ir::AxisType::UPCAST, 2, false}, piece.divides);
    amount /= 2;
  }
  SplitOff(adding.ctx, axis, {ir::AxisType::UPCAST, amount, false}, piece.divides);
  return absl::OkStatus();
}

absl::Status AddUnroll(Adding& adding, const Opt& opt) {
  UOPD_ASSIGN(const Piece piece, CopiesOf(adding, opt));
  PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce) return Bad(opt, "the axis is not reduced; use UPCAST");
  SplitOff(adding.ctx, axis, {ir::AxisType::UNROLL, piece.amount, false}, piece.divides);
  return absl::OkStatus();
}

std::vector<TriedAmount> UpcastAmounts(const SearchSpace&, const AxisInfo& axis, const Target&) {
  if (axis.is_reduce) return {};
  return FittingParts({2, 3, 4, 5, 6, 7, 8, 0}, axis);
}

std::vector<TriedAmount> UnrollAmounts(const SearchSpace&, const AxisInfo& axis, const Target&) {
  if (!axis.is_reduce) return {};
  return FittingParts({2, 4, 8, 16, 0}, axis);
}

}  // namespace

extern const OptRow kUpcastRow, kUnrollRow;

const OptRow kUpcastRow = {
    .kind = OptKind::kUpcast,
    .name = "UPCAST",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .length = OptRow::Length::kCopies,
    .axes_prose = "output",
    .effect = "splits off an inner part: copies",
    .limits = "up to 64",
    .add = AddUpcast,
    .amounts = UpcastAmounts,
    .slides = true,
};

const OptRow kUnrollRow = {
    .kind = OptKind::kUnroll,
    .name = "UNROLL",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kPart, "n"},
    .length = OptRow::Length::kCopies,
    .axes_prose = "of a reduction or a stage",
    .effect = "splits off an inner part: copies, the terms or elements of one step",
    .limits = "up to 64",
    .add = AddUnroll,
    .amounts = UnrollAmounts,
    .slides = true,
};

}  // namespace uopd::codegen
