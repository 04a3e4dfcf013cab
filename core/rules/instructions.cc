// SPDX-License-Identifier: MIT
#include "core/rules/instructions.h"

namespace uopd::rules {
namespace {

using ir::Op;
using ir::UOp;

double OfOp(UOp u) {
  switch (u.op()) {
    case Op::EXP2:
    case Op::EXP:
      return 30;
    case Op::LOG2:
    case Op::LOG:
      return 40;
    case Op::SIN:
    case Op::COS:
    case Op::POW:
      return 120;
    case Op::THREEFRY:
      return 150;
    case Op::CDIV:
    case Op::CMOD:
      return 8;
    case Op::CAST:  // float to integer: handles NaN and values out of range
      return ir::IsFloat(u.src(0).dtype()) && ir::IsInt(u.dtype()) ? 20 : 1;
    case Op::FLOORDIV:
    case Op::FLOORMOD:
      return 12;
    case Op::MAX:
    case Op::SHL:
    case Op::SHR:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

double Instructions(UOp u) {
  return u.Is(ir::kElementwiseOps) ? OfOp(u) + RoundingInstructions(u.dtype()) : 0;
}

double RoundingInstructions(ir::Dtype dtype) {
  if (dtype == ir::Dtype::TF32) return 4;
  if (!ir::IsFloat(dtype) || ir::Bits(dtype) >= 32) return 0;
  return ir::Bits(dtype) == 16 ? 8 : 25;
}

}  // namespace uopd::rules
