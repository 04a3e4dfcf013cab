// SPDX-License-Identifier: MIT
#include "core/render/llvm_values.h"

#include <algorithm>
#include <numbers>
#include <span>

#include "core/ir/exp2.h"
#include "core/render/lines.h"
#include "core/render/spelling.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

bool IsSplat(UOp stack) {
  return std::ranges::all_of(stack.srcs(), [&](UOp s) { return s == stack.src(0); });
}

}  // namespace

// A STACK of lanes of two vectors becomes one shuffle of the vectors, which reads no scalars.
void LlvmValues::FindLanes(UOp linear) {
  for (UOp u : linear.srcs()) {
    const bool shuffles = u.Is(Op::STACK) && !IsSplat(u) && !ShuffledVectors(u).empty();
    for (UOp s : u.srcs()) {
      if (s.Is(Op::GEP) && !shuffles) lanes_.insert(s.id());
    }
  }
}

absl::Status LlvmValues::Line(UOp u) {
  switch (u.op()) {
    case Op::GEP:
      return Lane(u);
    case Op::STACK:
      return Stack(u);
    case Op::CAST:
      return Cast(u);
    case Op::BITCAST:
      return Bitcast(u);
    case Op::WHERE:
      return Select(u);
    case Op::NEG:
      return Negate(u);
    case Op::WMMA:
      return Wmma(u);
    case Op::EXP2:
    case Op::EXP:
      if (u.tag() != ir::kByScaling || u.dtype() != Dtype::F32) return NoLlvmRendering(u);
      Exponential(u);
      return absl::OkStatus();
    default:
      return Alu(u);
  }
}

// Lanes first to first + n of a vector; those that it does not have are poison. lanes 0: of a
// scalar.
std::string LlvmValues::Part(const std::string& x, int64_t lanes, int64_t first, int64_t n) {
  if (lanes == n) return x;
  const std::string out = text_.Temporary(), from = LlvmType("float", lanes);
  if (lanes == 0) {
    text_.Put(out, " = insertelement ", LlvmType("float", n), " poison, float ", x, ", i64 0");
    return out;
  }
  std::string mask;
  for (int64_t i = 0; i < n; ++i) {
    Append(mask, i > 0 ? ", " : "", "i32 ", first + i < lanes ? Cat(first + i) : "poison");
  }
  text_.Put(out, " = shufflevector ", from, " ", x, ", ", from, " poison, <", n, " x i32> <", mask,
            ">");
  return out;
}

// x * 2^n in f32, by AVX-512. VSCALEFPS scales NaN by 2^inf to inf and by 2^-inf to 0, which makes
// EXP2 of infinities right, and NaN otherwise stays NaN.
std::string LlvmValues::Scaled(const std::string& x, const std::string& n, int64_t lanes) {
  const int64_t step = std::clamp<int64_t>(lanes, 4, 16);
  const std::string type = LlvmType("float", step), mask = step == 16 ? "i16" : "i8";
  std::vector<std::string> parts;
  for (int64_t first = 0; first == 0 || first < lanes; first += step) {
    const std::string a = Part(x, lanes, first, step), b = Part(n, lanes, first, step);
    const std::string name = Cat("@llvm.x86.avx512.mask.scalef.ps.", 32 * step);
    parts.push_back(text_.Temporary());
    text_.Put(
        parts.back(), " = ",
        step == 16
            ? text_.Call(
                  name, type,
                  {{type, a}, {type, b}, {type, "zeroinitializer"}, {mask, "-1"}, {"i32", "4"}})
            : text_.Call(name, type,
                         {{type, a}, {type, b}, {type, "zeroinitializer"}, {mask, "-1"}}));
  }
  if (lanes == 0) {
    const std::string out = text_.Temporary();
    text_.Put(out, " = extractelement ", type, " ", parts[0], ", i64 0");
    return out;
  }
  for (int64_t have = step; have < lanes; have *= 2) {
    std::vector<std::string> joined;
    for (size_t i = 0; i < parts.size(); i += 2) {
      joined.push_back(text_.Temporary());
      std::string all;
      for (int64_t k = 0; k < 2 * have; ++k) Append(all, k > 0 ? ", " : "", "i32 ", k);
      const std::string half = LlvmType("float", have);
      text_.Put(joined.back(), " = shufflevector ", half, " ", parts[i], ", ", half, " ",
                parts[i + 1], ", <", 2 * have, " x i32> <", all, ">");
    }
    parts = std::move(joined);
  }
  return Part(parts[0], std::max(lanes, step), 0, lanes);
}

void LlvmValues::Exponential(UOp u) {
  const int64_t n = Lanes(ctx_, u);
  const std::string type = text_.TypeOf(u), x = text_.Operand(u.src(0), n),
                    suffix = LlvmMangled(Dtype::F32, n);
  const auto constant = [&](double v) { return LlvmText::Constant(ctx_.Float(Dtype::F32, v), n); };
  const auto define = [&](auto&&... parts) {
    std::string name = text_.Temporary();
    text_.Put(name, " = ", parts...);
    return name;
  };
  const auto fma = [&](const std::string& a, const std::string& b, const std::string& c) {
    return define(text_.Call(Cat("@llvm.fma.", suffix), type, {{type, a}, {type, b}, {type, c}}));
  };
  const bool natural = u.Is(Op::EXP);
  const std::string binary =
      natural ? define("fmul ", type, " ", x, ", ", constant(std::numbers::log2e)) : x;
  const std::string nearest =
      define(text_.Call(Cat("@llvm.roundeven.", suffix), type, {{type, binary}}));
  const std::string f =
      natural ? fma(nearest, constant(-ir::kLn2Low), fma(nearest, constant(-ir::kLn2High), x))
              : define("fsub ", type, " ", x, ", ", nearest);
  const std::span<const double> polynomial =
      natural ? std::span<const double>(ir::kExpPolynomial) : ir::kExp2Polynomial;
  std::string p = constant(polynomial.back());
  for (size_t i = polynomial.size() - 1; i-- > 0;) p = fma(p, f, constant(polynomial[i]));
  text_.names[u.id()] = Scaled(p, nearest, n);
}

// AVX512-BF16 and AVX512-VNNI, with 4, 8 or 16 lanes of 32 bits.
absl::Status LlvmValues::Wmma(UOp u) {
  const int64_t n = Lanes(ctx_, u);
  const bool f16 = u.ints()[0] == static_cast<int64_t>(ir::NumberOf(Dtype::F16));  // tiles only
  if (f16 || (n != 4 && n != 8 && n != 16)) return NoLlvmRendering(u);
  const std::string type = text_.TypeOf(u), words = LlvmType("i32", n),
                    pairs = Cat("<", 2 * n, " x bfloat>");
  const bool floats = ir::IsFloat(u.dtype());
  std::string operands[2];
  for (size_t i = 0; i < 2; ++i) {
    operands[i] = text_.Operand(u.src(i), n);
    if (!floats) continue;
    const std::string as_pairs = text_.Temporary();
    text_.Put(as_pairs, " = bitcast ", words, " ", operands[i], " to ", pairs);
    operands[i] = as_pairs;
  }
  const std::string sum = u.n_src() == 3 ? text_.Operand(u.src(2), n) : "zeroinitializer";
  const std::string name =
      Cat(floats ? "@llvm.x86.avx512bf16.dpbf16ps." : "@llvm.x86.avx512.vpdpbusd.", 32 * n);
  const std::string& of = floats ? pairs : words;
  const std::string call =
      text_.Call(name, type, {{type, sum}, {of, operands[0]}, {of, operands[1]}});
  text_.Put(text_.Fresh(u), " = ", call);
  return absl::OkStatus();
}

absl::Status LlvmValues::Lane(UOp u) {
  if (!lanes_.contains(u.id())) return absl::OkStatus();
  const std::string type = text_.TypeOf(u.src(0)), from = text_.Operand(u.src(0), 0);
  text_.Put(text_.Fresh(u), " = extractelement ", type, " ", from, ", i64 ", u.arg().AsInt());
  return absl::OkStatus();
}

absl::Status LlvmValues::Bitcast(UOp u) {
  const std::string from = text_.TypeOf(u.src(0)), to = text_.TypeOf(u),
                    x = text_.Operand(u.src(0), 0);
  if (from == to) {
    text_.names[u.id()] = x;
  } else {
    text_.Put(text_.Fresh(u), " = bitcast ", from, " ", x, " to ", to);
  }
  return absl::OkStatus();
}

absl::Status LlvmValues::Select(UOp u) {
  const int64_t n = Lanes(ctx_, u);
  const std::string c = text_.Operand(u.src(0), n), a = text_.Operand(u.src(1), n),
                    b = text_.Operand(u.src(2), n), type = text_.TypeOf(u);
  text_.Put(text_.Fresh(u), " = select ", LlvmType("i1", n), " ", c, ", ", type, " ", a, ", ", type,
            " ", b);
  return absl::OkStatus();
}

absl::Status LlvmValues::Negate(UOp u) {
  const std::string type = text_.TypeOf(u), x = text_.Operand(u.src(0), Lanes(ctx_, u));
  if (ir::IsFloat(u.dtype())) {
    text_.Put(text_.Fresh(u), " = fneg ", type, " ", x);
  } else {
    text_.Put(text_.Fresh(u), " = sub ", type, Lanes(ctx_, u) > 0 ? " zeroinitializer, " : " 0, ",
              x);
  }
  return absl::OkStatus();
}

absl::Status LlvmValues::Alu(UOp u) {
  const OpSpelling* op = SpellingOf(u.op());
  if (op == nullptr) return NoLlvmRendering(u);
  const Dtype d = u.src(0).dtype();
  const std::string_view name = op->Llvm(d);
  if (name.empty() || LlvmScalar(d).empty()) return NoLlvmRendering(u);
  text_.TypeOf(u);
  const int64_t n = Lanes(ctx_, u);
  std::vector<std::string> x;
  for (UOp s : u.srcs()) x.push_back(text_.Operand(s, n));
  const std::string type = LlvmType(LlvmScalar(d), n);
  if (name[0] != '@') {
    text_.Put(text_.Fresh(u), " = ", name, " ", type, " ", x[0], ", ", x[1]);
    return absl::OkStatus();
  }
  const std::string full = Cat(name, ".", LlvmMangled(d, n));
  const std::string call = x.size() == 1 ? text_.Call(full, type, {{type, x[0]}})
                           : x.size() == 2
                               ? text_.Call(full, type, {{type, x[0]}, {type, x[1]}})
                               : text_.Call(full, type, {{type, x[0]}, {type, x[1]}, {type, x[2]}});
  text_.Put(text_.Fresh(u), " = ", call);
  return absl::OkStatus();
}

// The vectors that the sources of a STACK are lanes of, if these are one or two vectors of equal
// length; else none.
std::vector<UOp> LlvmValues::ShuffledVectors(UOp stack) {
  std::vector<UOp> out;
  for (UOp s : stack.srcs()) {
    if (!s.Is(Op::GEP)) return {};
    if (std::find(out.begin(), out.end(), s.src(0)) != out.end()) continue;
    out.push_back(s.src(0));
    if (out.size() > 2 || Lanes(ctx_, out.back()) != Lanes(ctx_, out[0])) return {};
  }
  return out;
}

absl::Status LlvmValues::Stack(UOp u) {
  const auto n = static_cast<int64_t>(u.n_src());
  const std::string_view scalar = LlvmScalar(u.dtype());
  if (scalar.empty()) return NoLlvmRendering(u);
  const std::string type = text_.TypeOf(u);
  const auto all = [&](auto holds) { return std::all_of(u.srcs().begin(), u.srcs().end(), holds); };
  if (all([](UOp s) { return s.Is(Op::CONST); })) {
    std::string out = "<";
    for (UOp s : u.srcs())
      Append(out, out.size() > 1 ? ", " : "", scalar, " ", LlvmText::Constant(s, 0));
    text_.names[u.id()] = out + ">";
  } else if (IsSplat(u)) {
    text_.names[u.id()] = text_.Splat(text_.Operand(u.src(0), 0), scalar, n);
  } else if (const auto from = ShuffledVectors(u); !from.empty()) {
    const std::string type_of = text_.TypeOf(from[0]), x = text_.Operand(from[0], 0),
                      y = from.size() == 2 ? text_.Operand(from[1], 0) : "poison";
    const int64_t lanes = Lanes(ctx_, from[0]);
    std::string mask;
    for (UOp s : u.srcs()) {
      Append(mask, mask.empty() ? "" : ", ", "i32 ",
             s.arg().AsInt() + (s.src(0) == from[0] ? 0 : lanes));
    }
    text_.Put(text_.Fresh(u), " = shufflevector ", type_of, " ", x, ", ", type_of, " ", y, ", <", n,
              " x i32> <", mask, ">");
  } else {
    std::string now = "poison";
    for (int64_t i = 0; i < n; ++i) {
      const std::string next = text_.Temporary();
      text_.Put(next, " = insertelement ", type, " ", now, ", ", scalar, " ",
                text_.Operand(u.src(static_cast<size_t>(i)), 0), ", i64 ", i);
      now = next;
    }
    text_.names[u.id()] = now;
  }
  return absl::OkStatus();
}

absl::Status LlvmValues::Cast(UOp u) {
  const Dtype from = u.src(0).dtype(), to = u.dtype();
  const int64_t n = Lanes(ctx_, u);
  const std::string x = text_.Operand(u.src(0), n);
  if (from == Dtype::Index && to == Dtype::I64) {
    text_.names[u.id()] = x;
    return absl::OkStatus();
  }
  if (LlvmScalar(from).empty() || LlvmScalar(to).empty()) return NoLlvmRendering(u);
  const std::string a = LlvmType(LlvmScalar(from), n), b = LlvmType(LlvmScalar(to), n);
  text_.TypeOf(u);
  if (to == Dtype::Bool) {
    text_.Put(text_.Fresh(u), ir::IsFloat(from) ? " = fcmp une " : " = icmp ne ", a, " ", x, ", ",
              n > 0 || !ir::IsFloat(from) ? (n > 0 ? "zeroinitializer" : "0") : "0.0");
    return absl::OkStatus();
  }
  if (from == Dtype::F16 && !ir::IsFloat(to)) {
    // Convert through float: the direct conversion of half vectors on x86 turns NaN into the
    // lowest integer.
    const std::string wide = text_.Temporary(), f = LlvmType("float", n);
    text_.Put(wide, " = fpext ", a, " ", x, " to ", f);
    const std::string name = Cat(ir::IsSigned(to) ? "@llvm.fptosi.sat." : "@llvm.fptoui.sat.",
                                 LlvmMangled(to, n), ".", LlvmMangled(Dtype::F32, n));
    const std::string call = text_.Call(name, b, {{f, wide}});
    text_.Put(text_.Fresh(u), " = ", call);
    return absl::OkStatus();
  }
  if (ir::IsFloat(from) && !ir::IsFloat(to)) {
    const std::string name = Cat(ir::IsSigned(to) ? "@llvm.fptosi.sat." : "@llvm.fptoui.sat.",
                                 LlvmMangled(to, n), ".", LlvmMangled(from, n));
    const std::string call = text_.Call(name, b, {{a, x}});
    text_.Put(text_.Fresh(u), " = ", call);
    return absl::OkStatus();
  }
  const int wide = to == Dtype::Bool ? 1 : ir::Bits(to),
            narrow = from == Dtype::Bool ? 1 : ir::Bits(from);
  if (a == b) {
    text_.names[u.id()] = x;
    return absl::OkStatus();
  }
  std::string_view op;
  if (ir::IsFloat(from))
    op = wide > narrow ? "fpext" : "fptrunc";
  else if (ir::IsFloat(to))
    op = ir::IsSigned(from) ? "sitofp" : "uitofp";
  else
    op = wide < narrow ? "trunc" : ir::IsSigned(from) ? "sext" : "zext";
  text_.Put(text_.Fresh(u), " = ", op, " ", a, " ", x, " to ", b);
  return absl::OkStatus();
}

}  // namespace uopd::render
