// SPDX-License-Identifier: MIT
#include "core/render/alignment.h"

#include <algorithm>
#include <bit>

namespace uopd::render {
namespace {

using ir::Op;
using ir::UOp;

constexpr int kMostZeros = 30;

}  // namespace

int Alignment::ZerosOf(UOp u) {
  if (u.Is(Op::CONST)) {
    const auto value = static_cast<uint64_t>(u.const_int());
    return std::min(std::countr_zero(value), kMostZeros);  // 0 is divided by everything
  }
  if (const auto known = zeros_.find(u.id()); known != zeros_.end()) return known->second;
  int zeros = 0;
  switch (u.op()) {
    case Op::ADD:
    case Op::SUB:
    case Op::OR:
    case Op::XOR:
    case Op::CMOD:  // the remainder differs from the first operand by a multiple of the second
      zeros = std::min(ZerosOf(u.src(0)), ZerosOf(u.src(1)));
      break;
    case Op::AND:
      zeros = std::max(ZerosOf(u.src(0)), ZerosOf(u.src(1)));
      break;
    case Op::WHERE:
      zeros = std::min(ZerosOf(u.src(1)), ZerosOf(u.src(2)));
      break;
    case Op::MUL:
      zeros = ZerosOf(u.src(0)) + ZerosOf(u.src(1));
      break;
    case Op::SHL:
      zeros = ZerosOf(u.src(0));
      if (u.src(1).Is(Op::CONST)) zeros += static_cast<int>(u.src(1).const_int());
      break;
    case Op::NEG:
    case Op::CAST:
      if (ir::IsFloat(u.src(0).dtype())) break;
      zeros = ZerosOf(u.src(0));
      break;
    default:
      break;
  }
  zeros = std::min(zeros, kMostZeros);
  zeros_[u.id()] = zeros;
  return zeros;
}

}  // namespace uopd::render
