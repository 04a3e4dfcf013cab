// SPDX-License-Identifier: MIT
// The spelling of dtypes and ops in each output language: one row per dtype or op, one group of
// columns per language.
//
// An empty column means that the renderer of the language has no simple text: it writes the op in
// code, or refuses it.
#pragma once
#include <string_view>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace uopd::render {

struct TypeSpelling {
  ir::Dtype dtype;
  std::string_view c, c_suffix;  // c_suffix: of literals
  std::string_view c_wide;       // unsigned type to compute in: signed overflow is undefined in C
  std::string_view llvm, llvm_mangled;  // llvm_mangled: in the names of intrinsics
};
// Null for index, void, bf16 and fp8, which no output language has.
const TypeSpelling* SpellingOf(ir::Dtype dtype);

// The spelling of an op, by the dtype of its operands.
//
// C: an expression. $0, $1, $2 are the operands, $T the type of the result, $W its c_wide, $@name a
// function of the math library. LLVM IR: an instruction with a type and two operands, or "@name" of
// an intrinsic overloaded on the type of the result. Bool counts as unsigned.
struct OpSpelling {
  ir::Op op;
  std::string_view c_float, c_int, c_bool;
  std::string_view llvm_float, llvm_signed, llvm_unsigned;

  std::string_view C(ir::Dtype operand) const;
  std::string_view Llvm(ir::Dtype operand) const;
};
const OpSpelling* SpellingOf(ir::Op op);

}  // namespace uopd::render
