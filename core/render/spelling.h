// SPDX-License-Identifier: MIT
// How every language writes types and ops: one row each, one column a language. A row without a
// text says that the language cannot write it that way.
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
// Null for a dtype that no language has: index, void, bf16 and fp8.
const TypeSpelling* SpellingOf(ir::Dtype dtype);

// By the dtype of the operands.
//
// C: an expression. $0, $1, $2: operands; $T: type of the result; $W: c_wide of the result; $F: "f"
// for f32. LLVM IR: an instruction with a type and two operands, or "@name" of an intrinsic over
// the result's type; bool counts as unsigned.
struct OpSpelling {
  ir::Op op;
  std::string_view c_float, c_int, c_bool;
  std::string_view llvm_float, llvm_signed, llvm_unsigned;

  std::string_view C(ir::Dtype operand) const;
  std::string_view Llvm(ir::Dtype operand) const;
};
const OpSpelling* SpellingOf(ir::Op op);

}  // namespace uopd::render
