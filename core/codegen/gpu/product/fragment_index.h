// SPDX-License-Identifier: MIT
// Places of a Fragment (core/base/target/fragment.h) as index expressions.
#pragma once
#include <span>

#include "core/base/target/fragment.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// The part of a place along `axis` that the bits give, where `number` is the number that has these
// bits.
ir::UOp FragmentDigits(ir::UOpContext& ctx, std::span<const Fragment::Bit> bits, char axis,
                       ir::UOp number);
// The same where the bits have values of their own, 0 or 1 each.
ir::UOp FragmentBits(ir::UOpContext& ctx, std::span<const Fragment::Bit> bits, char axis,
                     std::span<const ir::UOp> values);

}  // namespace uopd::codegen
