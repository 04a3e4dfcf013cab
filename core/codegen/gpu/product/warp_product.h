// SPDX-License-Identifier: MIT
// A sum of products by a matrix instruction of a warp, or of a group of warps.
//
// The instruction computes m rows and n columns of the result from k steps of the sum. These parts
// of the three axes are placeholders while the kernel is built:
//   - in an operand, they become the place of each element that a lane holds (Fragment);
//   - in an operand that is packed, they become words in shared memory (staged_operand.h), which
//     the instruction itself reads if it can (group_product.cc);
//   - everywhere else, they become the place of a result: a function of the lane's number, a LOCAL
//     range, and of the element's number in the lane, an UPCAST range.
// So stores, epilogues and copies to shared memory need no knowledge of the instruction.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "core/codegen/gpu/product/staged_operand.h"
#include "core/codegen/opts/make/making.h"
#include "core/codegen/opts/make/tensor_core.h"

namespace uopd::codegen {

// TC: see OptRow::add. In add_warp_product.cc.
absl::Status AddWarpProduct(Adding& adding, const Opt& opt);

// Which part of the axis the instruction takes.
InstructionTile TileOf(const Making& making, size_t axis);

// Makes Making::warp, with axis ids from Making::next_id on.
void MakeWarpRanges(Making& making);

// Replaces a REDUCE of the plan's kernel (PlanState::IsMmaSum). `operands` are the replacements of
// its factors.
ir::UOp MakeWarpProduct(Making& making, ir::UOp reduce, const Factors& operands);

// `sink` with the places in the instruction as functions of the lane and the element. `stores`:
// those of sink whose results move between lanes, if they can (StoresInQuads).
ir::UOp PlaceResults(const Making& making, ir::UOp sink, std::span<const ir::UOp> stores);

// In group_product.cc: the sum of `reduce` by an instruction that reads shared memory.
ir::UOp MakeGroupProduct(Making& making, ir::UOp reduce, const Factors& operands,
                         ir::UOp maybe_valid);
// Why such an instruction cannot compute the sum; empty if it can.
std::string MaybeNoGroup(const PlanView& plan, const Factors& factors);

// In quad_stores.cc: whether the results that a STORE of the plan's kernel writes are exchanged
// between lanes, so that a lane stores more neighbours.
bool StoresInQuads(const PlanView& plan, ir::UOp store);
// The RANGE of two that is bit 3 of a result's column, or null; which bit of the element's number
// it is, if any.
struct QuadBit {
  ir::UOp maybe_range;
  std::optional<size_t> element;
};
QuadBit QuadBitOf(const Making& making);
// Whether UPCAST of the axis makes the RANGE of a QuadBit, if the amount is even.
bool HoldsQuadBit(const PlanState& state, int axis);
// The STORE after the exchange. `places`: where results lie before it.
ir::UOp QuadStore(const Making& making, ir::UOp store, const QuadBit& bit,
                  const ir::Substitution& places);

}  // namespace uopd::codegen
