// SPDX-License-Identifier: MIT
#include "core/render/llvm_text.h"

#include <algorithm>
#include <bit>

#include "core/render/lines.h"
#include "core/render/spelling.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

std::string ScalarConstant(UOp u) {
  if (u.dtype() == Dtype::Bool) return u.const_int() != 0 ? "true" : "false";
  if (!ir::IsFloat(u.dtype())) return Cat(u.const_int());
  // LLVM writes float constants as hexadecimal bits; f32 as the bits of a double.
  const bool half = u.dtype() == Dtype::F16;
  const uint64_t bits = half ? ir::EncodeFloat(Dtype::F16, u.const_float())
                             : std::bit_cast<uint64_t>(u.const_float());
  std::string out = half ? "0xH" : "0x";
  for (int i = half ? 3 : 15; i >= 0; --i) out += "0123456789ABCDEF"[bits >> (4 * i) & 15];
  return out;
}

}  // namespace

std::string_view LlvmScalar(Dtype d) {
  const TypeSpelling* type = SpellingOf(d);
  return type == nullptr ? std::string_view() : type->llvm;
}

std::string_view LlvmInMemory(Dtype d) { return d == Dtype::Bool ? "i8" : LlvmScalar(d); }

std::string LlvmType(std::string_view scalar, int64_t lanes) {
  return lanes == 0 ? std::string(scalar) : Cat("<", lanes, " x ", scalar, ">");
}

std::string LlvmMangled(Dtype d, int64_t lanes) {
  const std::string s(SpellingOf(d)->llvm_mangled);
  return lanes == 0 ? s : Cat("v", lanes, s);
}

absl::Status NoLlvmRendering(UOp u) {
  return absl::UnimplementedError(
      Cat("the renderer of LLVM IR does not support ", Name(u.op()), " of ", Name(u.dtype())));
}

void LlvmText::Label(std::string_view name) {
  Append(body, name, ":\n");
  block = std::string(name);
}

std::string LlvmText::Constant(UOp u, int64_t lanes) {
  if (lanes == 0) return ScalarConstant(u);
  std::string out = "<";
  for (int64_t i = 0; i < lanes; ++i)
    Append(out, i ? ", " : "", LlvmScalar(u.dtype()), " ", ScalarConstant(u));
  return out + ">";
}

std::string LlvmText::Operand(UOp u, int64_t lanes) {
  if (u.Is(Op::CONST)) return Constant(u, lanes);
  const std::string& name = names.at(u.id());
  if (lanes == 0 || Lanes(ctx_, u) > 0) return name;
  return Splat(name, LlvmScalar(u.dtype()), lanes);
}

std::string LlvmText::Splat(std::string_view value, std::string_view scalar, int64_t lanes) {
  const std::string one = Temporary(), all = Temporary(), type = LlvmType(scalar, lanes);
  Put(one, " = insertelement ", type, " poison, ", scalar, " ", value, ", i64 0");
  Put(all, " = shufflevector ", type, " ", one, ", ", type, " poison, <", lanes,
      " x i32> zeroinitializer");
  return all;
}

void LlvmText::PutSelect(std::string_view name, UOp gate, int64_t n, std::string_view type,
                         std::string_view yes, std::string_view no) {
  const int64_t lanes = Lanes(ctx_, gate) > 0 ? n : 0;
  const std::string by = Operand(gate, lanes);
  Put(name, " = select ", LlvmType("i1", lanes), " ", by, ", ", type, " ", yes, ", ", type, " ",
      no);
}

std::string LlvmText::TypeOf(UOp u) {
  const int64_t lanes = Lanes(ctx_, u);
  widest_bytes_ = std::max(widest_bytes_, lanes * ir::ByteSize(u.dtype()));
  return LlvmType(LlvmScalar(u.dtype()), lanes);
}

std::string LlvmText::Call(std::string_view name, std::string_view type,
                           std::initializer_list<std::pair<std::string, std::string>> args) {
  std::string values, types;
  for (const auto& [t, v] : args) {
    Append(values, values.empty() ? "" : ", ", t, " ", v);
    Append(types, types.empty() ? "" : ", ", t);
  }
  declared_.insert(Cat(type, " ", name, "(", types, ")"));
  return Cat("call ", type, " ", name, "(", values, ")");
}

}  // namespace uopd::render
