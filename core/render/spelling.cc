// SPDX-License-Identifier: MIT
#include "core/render/spelling.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::Op;

constexpr TypeSpelling kTypes[] = {
    {Dtype::Bool, "bool", "", "", "i1", "i1"},
    {Dtype::I8, "int8_t", "", "uint32_t", "i8", "i8"},
    {Dtype::U8, "uint8_t", "u", "uint32_t", "i8", "i8"},
    {Dtype::I16, "int16_t", "", "uint32_t", "i16", "i16"},
    {Dtype::U16, "uint16_t", "u", "uint32_t", "i16", "i16"},
    {Dtype::I32, "int32_t", "", "uint32_t", "i32", "i32"},
    {Dtype::U32, "uint32_t", "u", "uint32_t", "i32", "i32"},
    {Dtype::I64, "int64_t", "ll", "uint64_t", "i64", "i64"},
    {Dtype::U64, "uint64_t", "ull", "uint64_t", "i64", "i64"},
    {Dtype::F16, "_Float16", "f", "", "half", "f16"},
    {Dtype::BF16, "uint16_t", "u", "uint32_t", "i16", "i16"},
    {Dtype::TF32, "float", "f", "", "float", "f32"},
    {Dtype::F32, "float", "f", "", "float", "f32"},
    {Dtype::F64, "double", "", "", "double", "f64"},
};

constexpr OpSpelling kOps[] = {
    {Op::ADD, "$0 + $1", "($T)(($W)$0 + ($W)$1)", "", "fadd", "add", "add"},
    {Op::SUB, "$0 - $1", "($T)(($W)$0 - ($W)$1)", "", "fsub", "sub", "sub"},
    {Op::MUL, "$0 * $1", "($T)(($W)$0 * ($W)$1)", "", "fmul", "mul", "mul"},
    {Op::FDIV, "$0 / $1", "", "", "fdiv", "", ""},
    {Op::NEG, "-$0", "($T)(0 - ($W)$0)", "", "", "", ""},
    {Op::CDIV, "", "($T)($0 / $1)", "", "", "sdiv", "udiv"},
    {Op::CMOD, "", "($T)($0 % $1)", "", "", "srem", "urem"},
    {Op::SHL, "", "($T)(($W)$0 << $1)", "", "", "shl", "shl"},
    {Op::SHR, "", "($T)($0 >> $1)", "", "", "ashr", "lshr"},
    {Op::AND, "", "($T)($0 & $1)", "$0 & $1", "", "and", "and"},
    {Op::OR, "", "($T)($0 | $1)", "$0 | $1", "", "or", "or"},
    {Op::XOR, "", "($T)($0 ^ $1)", "$0 ^ $1", "", "xor", "xor"},
    {Op::CMPLT, "$0 < $1", "$0 < $1", "$0 < $1", "fcmp olt", "icmp slt", "icmp ult"},
    {Op::CMPNE, "$0 != $1", "$0 != $1", "$0 != $1", "fcmp une", "icmp ne", "icmp ne"},
    {Op::CMPEQ, "$0 == $1", "$0 == $1", "$0 == $1", "fcmp oeq", "icmp eq", "icmp eq"},
    {Op::WHERE, "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", "", "", ""},
    {Op::MULACC, "$@fma($0, $1, $2)", "", "", "@llvm.fmuladd", "", ""},
    {Op::SQRT, "$@sqrt($0)", "", "", "@llvm.sqrt", "", ""},
    {Op::TRUNC, "$@trunc($0)", "", "", "@llvm.trunc", "", ""},
};

}  // namespace

const TypeSpelling* SpellingOf(Dtype dtype) {
  for (const TypeSpelling& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

const OpSpelling* SpellingOf(Op op) {
  for (const OpSpelling& spelling : kOps) {
    if (spelling.op == op) return &spelling;
  }
  return nullptr;
}

std::string_view OpSpelling::C(Dtype operand) const {
  if (ir::IsFloat(operand)) return c_float;
  return operand == Dtype::Bool ? c_bool : c_int;
}

std::string_view OpSpelling::Llvm(Dtype operand) const {
  if (ir::IsFloat(operand)) return llvm_float;
  return ir::IsSigned(operand) ? llvm_signed : llvm_unsigned;
}

}  // namespace uopd::render
