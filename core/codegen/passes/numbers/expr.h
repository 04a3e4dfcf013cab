// SPDX-License-Identifier: MIT
// Ex: a node with overloaded operators, so that decompositions read like arithmetic.
//
// Each operator creates one node. A constant operand gets the dtype of the other operand.
#pragma once
#include "core/ir/build.h"

namespace uopd::codegen {

class Ex {
 public:
  Ex(ir::UOpContext& ctx, ir::UOp u) : ctx_(&ctx), u_(u) {}

  ir::UOp uop() const { return u_; }
  operator ir::UOp() const { return u_; }  // NOLINT(google-explicit-constructor): an Ex is a UOp
  ir::Dtype dtype() const { return u_.dtype(); }

  Ex Of(ir::UOp u) const { return {*ctx_, u}; }
  // A constant of this dtype.
  Ex Const(double v) const { return Of(ctx_->Const(dtype(), v)); }
  Ex Bits(uint64_t v) const { return Of(ctx_->Int(dtype(), static_cast<ir::Int128>(v))); }
  Ex Cast(ir::Dtype d) const { return Of(ir::Cast(*ctx_, u_, d)); }
  Ex Bitcast(ir::Dtype d) const { return Of(ir::Bitcast(*ctx_, u_, d)); }
  Ex Alu(ir::Op op, Ex b) const { return Of(ir::Alu(*ctx_, op, {u_, b.u_})); }
  Ex Alu(ir::Op op) const { return Of(ir::Alu(*ctx_, op, {u_})); }
  // condition ? a : b
  Ex Select(Ex a, Ex b) const { return Of(ir::Where(*ctx_, u_, a.u_, b.u_)); }
  Ex Eq(Ex b) const { return Alu(ir::Op::CMPEQ, b); }
  Ex Ne(Ex b) const { return Alu(ir::Op::CMPNE, b); }
  Ex Not() const { return Of(ir::Not(*ctx_, u_)); }
  // this * b + c, rounded once where the target can.
  Ex Fma(Ex b, Ex c) const { return Of(ir::Alu(*ctx_, ir::Op::MULACC, {u_, b.u_, c.u_})); }

 private:
  ir::UOpContext* ctx_;
  ir::UOp u_;
};

inline Ex operator+(Ex a, Ex b) { return a.Alu(ir::Op::ADD, b); }
inline Ex operator-(Ex a, Ex b) { return a.Alu(ir::Op::SUB, b); }
inline Ex operator*(Ex a, Ex b) { return a.Alu(ir::Op::MUL, b); }
inline Ex operator/(Ex a, Ex b) { return a.Alu(ir::Op::FDIV, b); }
inline Ex operator&(Ex a, Ex b) { return a.Alu(ir::Op::AND, b); }
inline Ex operator|(Ex a, Ex b) { return a.Alu(ir::Op::OR, b); }
inline Ex operator^(Ex a, Ex b) { return a.Alu(ir::Op::XOR, b); }
inline Ex operator<(Ex a, Ex b) { return a.Alu(ir::Op::CMPLT, b); }
inline Ex operator+(Ex a, double b) { return a + a.Const(b); }
inline Ex operator-(Ex a, double b) { return a - a.Const(b); }
inline Ex operator*(Ex a, double b) { return a * a.Const(b); }
inline Ex operator<(Ex a, double b) { return a < a.Const(b); }
inline Ex operator<(double a, Ex b) { return b.Const(a) < b; }
inline Ex operator<<(Ex a, int b) { return a.Alu(ir::Op::SHL, a.Const(b)); }
inline Ex operator>>(Ex a, int b) { return a.Alu(ir::Op::SHR, a.Const(b)); }
inline Ex operator-(Ex a) { return a.Alu(ir::Op::NEG); }

}  // namespace uopd::codegen
