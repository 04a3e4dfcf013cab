// SPDX-License-Identifier: MIT
#include "core/render/ptx/values.h"

#include "core/ir/exp2.h"
#include "core/render/ptx/divide.h"
#include "core/render/spelling.h"

namespace uopd::render {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

// The instruction of an op without its type. "": the op has none of its own.
struct PtxOp {
  Op op;
  std::string_view of_float, of_int, of_bool;
};
constexpr PtxOp kPtxOps[] = {
    {Op::ADD, "add.rn", "add", ""},    {Op::SUB, "sub.rn", "sub", ""},
    {Op::MUL, "mul.rn", "mul.lo", ""}, {Op::FDIV, "div.rn", "", ""},
    {Op::NEG, "neg", "neg", ""},       {Op::CDIV, "", "div", ""},
    {Op::CMOD, "", "rem", ""},         {Op::SHL, "", "shl", ""},
    {Op::SHR, "", "shr", ""},          {Op::AND, "", "and", "and"},
    {Op::OR, "", "or", "or"},          {Op::XOR, "", "xor", "xor"},
    {Op::CMPLT, "lt", "lt", "lt"},     {Op::CMPNE, "neu", "ne", "ne"},
    {Op::CMPEQ, "eq", "eq", "eq"},     {Op::WHERE, "selp", "selp", "selp"},
    {Op::MULACC, "fma.rn", "", ""},    {Op::SQRT, "sqrt.rn", "", ""},
    {Op::TRUNC, "cvt.rzi", "", ""},
};

std::string_view PtxInstruction(Op op, Dtype operand) {
  for (const PtxOp& p : kPtxOps) {
    if (p.op != op) continue;
    if (operand == Dtype::F16 && op != Op::WHERE) return "";
    return ir::IsFloat(operand) ? p.of_float : operand == Dtype::Bool ? p.of_bool : p.of_int;
  }
  return "";
}

}  // namespace

absl::Status NoPtx(UOp u) {
  return absl::UnimplementedError(
      Cat("the renderer of PTX does not support ", Name(u.op()), " of ", Name(u.dtype())));
}

absl::Status PtxValues::Line(UOp u) {
  switch (u.op()) {
    case Op::GEP:
      text_.Define(u, [&](int64_t) { return text_.Operand(u.src(0), u.arg().AsInt()); });
      return absl::OkStatus();
    case Op::STACK: {
      std::vector<std::string> lanes;
      for (UOp s : u.srcs()) lanes.push_back(text_.Operand(s));
      text_.Set(u, std::move(lanes));
      return absl::OkStatus();
    }
    case Op::CAST:
      return Cast(u);
    case Op::BITCAST:
      return Bitcast(u);
    default:
      return Alu(u);
  }
}

absl::Status PtxValues::Alu(UOp u) {
  if (u.n_src() == 0) return NoPtx(u);
  const Dtype operand = u.src(u.n_src() - 1).dtype();
  if (SpellingOf(operand) == nullptr || SpellingOf(u.dtype()) == nullptr) return NoPtx(u);
  std::string_view instruction = PtxInstruction(u.op(), operand);
  if (operand == Dtype::F32 && u.Is(Op::EXP2))
    instruction = u.tag() == ir::kFlushes ? "ex2.approx.ftz" : "ex2.approx";
  if (operand == Dtype::F32 && u.Is(Op::MAX)) instruction = "max.NaN";
  if (instruction.empty()) return NoPtx(u);
  if (auto quotient = MaybePtxQuotient(text_, u)) {
    text_.Set(u, {*std::move(quotient)});
    return absl::OkStatus();
  }
  text_.Define(u, [&](int64_t lane) { return AluLane(u, lane, instruction); });
  return absl::OkStatus();
}

std::string PtxValues::AluLane(UOp u, int64_t lane, std::string_view instruction) {
  const Dtype d = u.dtype();
  switch (u.op()) {
    case Op::WHERE:
      return Selected(u, lane);
    case Op::CMPLT:
    case Op::CMPNE:
    case Op::CMPEQ:
      return Compared(u, lane);
    case Op::SHL:
    case Op::SHR:
      return Shifted(u, lane);
    case Op::FDIV:
      // The same number as div.rn gives, in shorter code.
      if (u.src(0).Is(Op::CONST) && u.src(0).const_float() == 1)
        return text_.New(PtxRegisterOf(d), Cat("rcp.rn.", PtxAluType(d)),
                         text_.Register(u.src(1), lane));
      break;
    case Op::TRUNC: {
      const std::string_view type = PtxAluType(d);
      return text_.New(PtxRegisterOf(d), Cat("cvt.rzi.", type, ".", type),
                       text_.Register(u.src(0), lane));
    }
    default:
      break;
  }
  if (d == Dtype::Bool) return OfBools(u, lane, instruction);
  // Bitwise operations have no sign.
  const bool bitwise = u.Is({Op::AND, Op::OR, Op::XOR});
  // A sum, difference or product has the same low bits whatever the sign; the signed form of each
  // exists.
  const bool wraps = !ir::IsFloat(d) && u.Is({Op::ADD, Op::SUB, Op::MUL, Op::NEG});
  const std::string_view type = bitwise ? PtxMoveType(d)
                                : wraps ? (IsLongInPtx(d) ? "s64" : "s32")
                                        : PtxAluType(d);
  std::string operands = text_.Register(u.src(0), lane);
  for (size_t i = 1; i < u.n_src(); ++i) Append(operands, ", ", text_.Operand(u.src(i), lane));
  std::string out = text_.New(PtxRegisterOf(d), Cat(instruction, ".", type), operands);
  return wraps ? Wrapped(d, out) : out;
}

// The amount of a shift has 32 bits, whatever is shifted.
std::string PtxValues::Shifted(UOp u, int64_t lane) {
  const Dtype d = u.dtype();
  const UOp by = u.src(1);
  std::string amount = text_.Operand(by, lane);
  if (IsLongInPtx(by.dtype()) && amount.starts_with('%'))
    amount = text_.New(kPtxWord, "cvt.u32.u64", amount);
  const std::string x = text_.Register(u.src(0), lane);
  if (u.Is(Op::SHL))
    return Wrapped(d, text_.New(PtxRegisterOf(d), Cat("shl.", PtxMoveType(d)), x, ", ", amount));
  return text_.New(PtxRegisterOf(d), Cat("shr.", PtxAluType(d)), x, ", ", amount);
}

std::string PtxValues::Compared(UOp u, int64_t lane) {
  const Dtype operand = u.src(1).dtype();
  const std::string x = text_.Register(u.src(0), lane);
  const std::string_view relation = PtxInstruction(u.op(), operand);
  if (operand != Dtype::Bool)
    return text_.New(kPtxPredicate, Cat("setp.", relation, ".", PtxAluType(operand)), x, ", ",
                     text_.Operand(u.src(1), lane));
  const std::string y = text_.Register(u.src(1), lane);
  if (u.Is(Op::CMPLT))
    return text_.New(kPtxPredicate, "and.pred", text_.New(kPtxPredicate, "not.pred", x), ", ", y);
  std::string differ = text_.New(kPtxPredicate, "xor.pred", x, ", ", y);
  return u.Is(Op::CMPNE) ? differ : text_.New(kPtxPredicate, "not.pred", differ);
}

std::string PtxValues::OfBools(UOp u, int64_t lane, std::string_view instruction) {
  const std::string x = text_.Register(u.src(0), lane);
  return text_.New(kPtxPredicate, Cat(instruction, ".pred"), x, ", ",
                   text_.Register(u.src(1), lane));
}

std::string PtxValues::Selected(UOp u, int64_t lane) {
  const Dtype d = u.dtype();
  const std::string condition = text_.Register(u.src(0), lane);
  if (d != Dtype::Bool) {
    const std::string x = text_.Operand(u.src(1), lane), y = text_.Operand(u.src(2), lane);
    return text_.New(PtxRegisterOf(d), Cat("selp.", PtxMoveType(d)), x, ", ", y, ", ", condition);
  }
  const std::string x = text_.Register(u.src(1), lane), y = text_.Register(u.src(2), lane);
  const std::string if_true = text_.New(kPtxPredicate, "and.pred", condition, ", ", x);
  const std::string otherwise = text_.New(kPtxPredicate, "not.pred", condition);
  const std::string if_false = text_.New(kPtxPredicate, "and.pred", otherwise, ", ", y);
  return text_.New(kPtxPredicate, "or.pred", if_true, ", ", if_false);
}

}  // namespace uopd::render
