// SPDX-License-Identifier: MIT
// The elementwise ops of the interpreter: fast loops for the common dtypes, ir::EvalAlu for the
// others.
//
// Floats are computed in double and rounded once, as ir::EvalAlu does.
#include <cmath>
#include <type_traits>

#include "core/interp/program.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/dtype.h"

namespace uopd::interp {
namespace {

using ir::Dtype;
using ir::Op;

ir::Scalar ToScalar(Dtype d, Value v) {
  return ir::IsFloat(d) ? ir::Scalar{d, 0, v.f} : ir::Scalar{d, v.i, 0};
}

void Generic(const Instruction& in, Value* out, const Value* const* src, size_t n) {
  ir::Scalar operands[3];
  const size_t count = in.src.size();
  for (size_t k = 0; k < n; ++k) {
    for (size_t s = 0; s < count; ++s) operands[s] = ToScalar(in.src_dtypes[s], src[s][k]);
    const auto result = ir::EvalAlu(in.op, in.dtype, std::span(operands, count));
    if (ir::IsFloat(in.dtype)) {
      out[k].f = result ? result->f : 0;
    } else {
      out[k].i = result ? result->i : 0;
    }
  }
}

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// An op of integers in type T, which wraps.
#define UOPD_INT(name, expression)                                                           \
  template <class T>                                                                         \
  void name(const Instruction&, Value* out, const Value* const* src, size_t n) {             \
    for (size_t k = 0; k < n; ++k) {                                                         \
      const auto a = static_cast<Unsigned<T>>(src[0][k].i),                                  \
                 b = static_cast<Unsigned<T>>(src[1][k].i);                                  \
      out[k].i = static_cast<int64_t>(static_cast<T>(static_cast<Unsigned<T>>(expression))); \
    }                                                                                        \
  }
UOPD_INT(AddInt, a + b)
UOPD_INT(SubInt, a - b)
UOPD_INT(MulInt, a* b)
UOPD_INT(AndInt, a& b)
UOPD_INT(OrInt, a | b)
UOPD_INT(XorInt, a ^ b)
#undef UOPD_INT

// An op of floats that is rounded to T.
#define UOPD_FLOAT(name, expression)                                             \
  template <class T>                                                             \
  void name(const Instruction&, Value* out, const Value* const* src, size_t n) { \
    for (size_t k = 0; k < n; ++k) {                                             \
      const double a = src[0][k].f, b = src[1][k].f;                             \
      out[k].f = static_cast<double>(static_cast<T>(expression));                \
    }                                                                            \
  }
UOPD_FLOAT(AddFloat, a + b)
UOPD_FLOAT(SubFloat, a - b)
UOPD_FLOAT(MulFloat, a* b)
UOPD_FLOAT(DivFloat, a / b)
#undef UOPD_FLOAT

template <class T>
void Fma(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    const double product = std::is_same_v<T, double>
                               ? std::fma(src[0][k].f, src[1][k].f, src[2][k].f)
                               : src[0][k].f * src[1][k].f + src[2][k].f;
    out[k].f = static_cast<double>(static_cast<T>(product));
  }
}

#define UOPD_COMPARE(name, type, field, operation)                                                \
  void name(const Instruction&, Value* out, const Value* const* src, size_t n) {                  \
    for (size_t k = 0; k < n; ++k)                                                                \
      out[k].i = static_cast<type>(src[0][k].field) operation static_cast<type>(src[1][k].field); \
  }
UOPD_COMPARE(LessFloat, double, f, <)
UOPD_COMPARE(LessSigned, int64_t, i, <)
UOPD_COMPARE(LessUnsigned, uint64_t, i, <)
UOPD_COMPARE(OtherFloat, double, f, !=)
UOPD_COMPARE(OtherInt, int64_t, i, !=)
UOPD_COMPARE(EqualFloat, double, f, ==)
UOPD_COMPARE(EqualInt, int64_t, i, ==)
#undef UOPD_COMPARE

void Select(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) out[k] = src[0][k].i != 0 ? src[1][k] : src[2][k];
}

void Copy(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) out[k] = src[0][k];
}

template <class T>
void Wrap(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) out[k].i = static_cast<int64_t>(static_cast<T>(src[0][k].i));
}

template <class T>
void DivSigned(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    const int64_t b = src[1][k].i;
    out[k].i = b == 0 ? 0
               : b == -1
                   ? static_cast<int64_t>(static_cast<T>(0 - static_cast<uint64_t>(src[0][k].i)))
                   : src[0][k].i / b;
  }
}

void ModSigned(const Instruction&, Value* out, const Value* const* src, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    const int64_t b = src[1][k].i;
    out[k].i = b == 0 || b == -1 ? 0 : src[0][k].i % b;
  }
}

void Wmma(const Instruction& in, Value* out, const Value* const* src, size_t n) {
  // Element e of a word; element 0 is in the lowest bits.
  const auto element = [](Dtype d, int64_t word, int64_t e) {
    const int bits = ir::Bits(d);
    const uint64_t raw = (static_cast<uint64_t>(word) >> (bits * e)) & ((uint64_t{1} << bits) - 1);
    return ir::IsFloat(d) ? ir::DecodeFloat(d, raw)
                          : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(raw)));
  };
  const Dtype a = *ir::DtypeByWire(static_cast<uint64_t>(in.numbers[0])),
              b = *ir::DtypeByWire(static_cast<uint64_t>(in.numbers[1]));
  for (size_t k = 0; k < n; ++k) {
    double sum = 0;
    if (in.src.size() == 3)
      sum = ir::IsFloat(in.dtype) ? src[2][k].f : static_cast<double>(src[2][k].i);
    for (int64_t e = 0; e < 32 / ir::Bits(a); ++e)
      sum += element(a, src[0][k].i, e) * element(b, src[1][k].i, e);
    if (ir::IsFloat(in.dtype)) {
      out[k].f = ir::RoundTo(in.dtype, sum);
    } else {
      out[k].i = ir::WrapTo(in.dtype, static_cast<ir::Int128>(sum));
    }
  }
}

AluFunction OfInts(const Instruction& in, Dtype d) {
  const bool wide = d == Dtype::I64 || d == Dtype::U64 || d == Dtype::Index;
  const auto pick = [&](AluFunction i32, AluFunction u32, AluFunction i64) {
    return wide ? i64 : d == Dtype::I32 ? i32 : d == Dtype::U32 ? u32 : Generic;
  };
  switch (in.op) {
    case Op::ADD:
      return pick(AddInt<int32_t>, AddInt<uint32_t>, AddInt<int64_t>);
    case Op::SUB:
      return pick(SubInt<int32_t>, SubInt<uint32_t>, SubInt<int64_t>);
    case Op::MUL:
      return pick(MulInt<int32_t>, MulInt<uint32_t>, MulInt<int64_t>);
    case Op::AND:
      return d == Dtype::Bool ? AndInt<int64_t>
                              : pick(AndInt<int32_t>, AndInt<uint32_t>, AndInt<int64_t>);
    case Op::OR:
      return d == Dtype::Bool ? OrInt<int64_t>
                              : pick(OrInt<int32_t>, OrInt<uint32_t>, OrInt<int64_t>);
    case Op::XOR:
      return d == Dtype::Bool ? XorInt<int64_t>
                              : pick(XorInt<int32_t>, XorInt<uint32_t>, XorInt<int64_t>);
    case Op::CDIV:
      return d == Dtype::I32 ? DivSigned<int32_t> : d == Dtype::I64 ? DivSigned<int64_t> : Generic;
    case Op::CMOD:
      return d == Dtype::I32 || d == Dtype::I64 ? ModSigned : Generic;
    case Op::CMPLT:
      return d == Dtype::U64 ? LessUnsigned : LessSigned;
    case Op::CMPNE:
      return OtherInt;
    case Op::CMPEQ:
      return EqualInt;
    default:
      return Generic;
  }
}

template <class T>
AluFunction OfFloats(Op op) {
  switch (op) {
    case Op::ADD:
      return AddFloat<T>;
    case Op::SUB:
      return SubFloat<T>;
    case Op::MUL:
      return MulFloat<T>;
    case Op::FDIV:
      return DivFloat<T>;
    case Op::MULACC:
      return Fma<T>;
    case Op::CMPLT:
      return LessFloat;
    case Op::CMPNE:
      return OtherFloat;
    case Op::CMPEQ:
      return EqualFloat;
    default:
      return Generic;
  }
}

AluFunction OfCast(Dtype from, Dtype to) {
  if (ir::IsFloat(from) && ir::IsFloat(to) && ir::Bits(to) >= ir::Bits(from) &&
      (to != Dtype::TF32 || ir::Bits(from) < 32))
    return Copy;
  if (ir::IsFloat(from) || ir::IsFloat(to) || from == Dtype::Bool || to == Dtype::Bool)
    return Generic;
  switch (to) {
    case Dtype::I32:
      return Wrap<int32_t>;
    case Dtype::U32:
      return Wrap<uint32_t>;
    case Dtype::I64:
    case Dtype::U64:
    case Dtype::Index:
      return Copy;
    default:
      return Generic;
  }
}

}  // namespace

AluFunction AluOf(const Instruction& in) {
  if (in.op == Op::WMMA) return Wmma;
  if (in.op == Op::WHERE) return Select;
  if (in.op == Op::CAST) return OfCast(in.src_dtypes[0], in.dtype);
  const Dtype operand = in.src_dtypes.back();
  if (operand == Dtype::F32) return OfFloats<float>(in.op);
  if (operand == Dtype::F64) return OfFloats<double>(in.op);
  return ir::IsFloat(operand) ? Generic : OfInts(in, operand);
}

}  // namespace uopd::interp
