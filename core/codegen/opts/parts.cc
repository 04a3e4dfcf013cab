// SPDX-License-Identifier: MIT
#include "core/codegen/opts/parts.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;

namespace {
constexpr int64_t kMostWhole = 16;  // iterations of an axis that the search takes whole
}  // namespace

absl::Status CheckSplits(const Adding& adding, const Opt& opt) {
  const PlanAxis& axis = adding.Axis(opt);
  if (axis.is_key_tiles) return Bad(opt, "the axis is the loop over key tiles of ONLINE");
  if (axis.is_merged_away) return Bad(opt, "the axis is a part of another one");
  if (axis.raster > 1) return Bad(opt, "RASTER comes after what splits its axis");
  if (adding.state.warp_rows && axis.range.axis_type() != AxisType::LOOP)
    return Bad(opt, "a matrix instruction computes the axis");
  return absl::OkStatus();
}

absl::StatusOr<Piece> PieceOf(const Adding& adding, const Opt& opt, bool pads) {
  UOPD_TRY(CheckSplits(adding, opt));
  const PlanAxis& axis = adding.Axis(opt);
  const int64_t amount = opt.amount == 0 ? axis.size : opt.amount;
  if (amount < 1) return Bad(opt, "the axis has a symbolic size");
  if (axis.size >= 0 && amount > std::max<int64_t>(axis.size, 1) && !pads)
    return Bad(opt, Cat("the axis has ", axis.size, " iterations left"));
  return Piece{amount, axis.size >= 0 && axis.size % amount == 0};
}

void SplitOff(ir::UOpContext& ctx, PlanAxis& axis, PlanAxis::Part part, bool divides) {
  if (part.amount == 1 && !(part.in_panel && axis.is_reduce)) return;
  if (divides) {
    axis.size /= part.amount;
  } else {
    axis.padded = true;
    if (axis.size >= 0) {
      axis.size = (axis.size + part.amount - 1) / part.amount;
    } else {
      axis.symbolic =
          ir::Alu(ctx, Op::FLOORDIV,
                  {ir::Add(ctx, axis.symbolic, ctx.Idx(part.amount - 1)), ctx.Idx(part.amount)});
    }
  }
  axis.parts.push_back(part);
}

std::vector<TriedAmount> FittingParts(std::vector<TriedAmount> amounts, const AxisInfo& axis,
                                      bool by_number) {
  std::erase_if(amounts, [&](const TriedAmount& tried) {
    const int64_t amount = tried.amount;
    // A loop of symbolic size cannot be unrolled whole.
    if (axis.size == 0) return amount == 0 && !by_number;
    if (amount == 0) return axis.size > kMostWhole || axis.size <= 1;
    return by_number ? amount > axis.size : amount >= axis.size;
  });
  return amounts;
}

}  // namespace uopd::codegen
