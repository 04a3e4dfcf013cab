// SPDX-License-Identifier: MIT
#include "core/render/c_like/writer.h"

#include <cmath>

#include "core/base/telemetry/log.h"

namespace uopd::render {

using ir::Dtype;
using ir::Op;
using ir::UOp;

std::string FloatText(double value, Dtype dtype) {
  std::string text = Cat(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return dtype == Dtype::F64 ? text : text + "f";
}

absl::StatusOr<std::string> CLikeWriter::Run() {
  Begin();
  for (UOp u : request_.linear.srcs()) {
    if (ctx_.Interrupted(8)) return ctx_.CheckInterrupt();
    if (absl::Status s = Line(u); !s.ok())
      return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as ", language()));
  }
  return Module(body_);
}

absl::Status CLikeWriter::Line(UOp u) {
  switch (u.op()) {
    case Op::DEFINE_VAR:
      return Variable(u);
    case Op::AFTER:
      SetName(u, std::string(NameOf(u.src(0))));  // a copy: the table may grow
      return absl::OkStatus();
    case Op::GROUP:
      return absl::OkStatus();
    case Op::RANGE:
      return Range(u);
    case Op::END:
      for (size_t i = 1; i < u.n_src(); ++i) {
        Close();
        if (u.src(i).tag() > 1) Close();
      }
      return absl::OkStatus();
    case Op::GEP:
      Define(u, [&](const std::string&) { return Value(u.src(0), Cat(u.arg().AsInt())); });
      return absl::OkStatus();
    case Op::STACK:
      return Stack(u);
    case Op::CAST:
      return Cast(u);
    case Op::BITCAST:
      if (SpellingOf(u.dtype()) == nullptr || SpellingOf(u.src(0).dtype()) == nullptr)
        return NoRendering(u);
      Define(u, [&](const std::string& lane) {
        std::string x = Value(u.src(0), lane);
        if (Type(u.dtype()) == Type(u.src(0).dtype())) return x;
        return Bitcast(u.dtype(), u.src(0).dtype(), x);
      });
      return absl::OkStatus();
    case Op::PARAM:
    case Op::BUFFER:
    case Op::SPECIAL:
    case Op::INDEX:
    case Op::LOAD:
    case Op::STORE:
    case Op::BARRIER:
    case Op::SHUFFLE:
    case Op::WMMA:
    case Op::WMMA_BLOCK:
    case Op::MMA:
    case Op::MATRIX_LOAD:
    case Op::GROUP_MMA:
    case Op::MMA_BEGIN:
    case Op::MMA_COMMIT:
    case Op::MMA_WAIT:
    case Op::SHARED_FENCE:
    case Op::BULK_INIT:
    case Op::BULK_EXPECT:
    case Op::BULK_COPY:
    case Op::BULK_WAIT:
    case Op::BULK_ARRIVE:
    case Op::ROLE:
    case Op::ROLE_END:
    case Op::ASYNC_COPY:
    case Op::ASYNC_COMMIT:
    case Op::ASYNC_WAIT:
      return OwnLine(u);
    default:
      return Alu(u);
  }
}

std::string CLikeWriter::Constant(UOp u) const {
  const Dtype d = u.dtype();
  if (ir::IsFloat(d)) {
    const double v = u.const_float();
    if (d == Dtype::F16 && half_is_bits()) return Cat("(uint16_t)", ir::EncodeFloat(d, v));
    if (!std::isfinite(v)) return NotFinite(v, d);
    std::string text = FloatText(v, d);
    return std::signbit(v) ? Cat("(", text, ")") : text;
  }
  const int64_t v = u.const_int();
  if (d == Dtype::Bool) return v != 0 ? "true" : "false";
  if (d == Dtype::U64) return Cat(static_cast<uint64_t>(v), "u", long_suffix());
  const bool is_long = ir::ByteSize(d) == 8;
  if (v == INT64_MIN) return Cat("(-9223372036854775807", long_suffix(), " - 1)");
  std::string text = Cat(v, is_long ? long_suffix() : SpellingOf(d)->c_suffix);
  return v < 0 ? Cat("(", text, ")") : text;
}

std::string CLikeWriter::Value(UOp u, const std::string& lane) const {
  if (u.Is(Op::CONST)) return Constant(u);
  const std::string& name = NameOf(u);
  if (Lanes(ctx_, u) == 0) return name;
  return lane_loops() ? Cat(name, "[", lane, "]") : Cat(name, "_", lane);
}

void CLikeWriter::ForLanes(int64_t n, const std::function<void(const std::string& lane)>& line) {
  if (n == 0) return line("0");
  for (int64_t i = 0; i < n; ++i) line(Cat(i));
}

void CLikeWriter::Define(UOp u, const LaneText& text) {
  const int64_t n = Lanes(ctx_, u);
  const std::string name = Fresh(u);
  if (n > 0 && lane_loops()) {
    Put(Type(u.dtype()), " ", name, "[", n, "];");
    return Put("LANES(", n, ") ", name, "[i] = ", text("i"), ";");
  }
  ForLanes(n, [&](const std::string& lane) {
    Put("const ", Type(u.dtype()), " ", n == 0 ? name : Cat(name, "_", lane), " = ", text(lane),
        ";");
  });
}

absl::Status CLikeWriter::Variable(UOp u) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i] != u.text()) continue;
    SetName(u, Cat("var", i));
    return absl::OkStatus();
  }
  return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
}

absl::Status CLikeWriter::Range(UOp u) {
  const std::string name = Cat("r", u.axis_id());
  SetName(u, name);
  const std::string_view type = Type(u.dtype());
  std::string from = "0", to = Value(u.src(0));
  if (u.tag() > 1) {
    // Two loops: the outer one over chunks polls, the inner one runs over a chunk.
    const std::string chunk = Cat("c", u.axis_id());
    Open(Cat("for (", type, " ", chunk, " = 0; ", chunk, " < ", to, "; ", chunk, " += ", u.tag(),
             ")"));
    Poll();
    // The end of the last chunk is compared as a distance: chunk + tag may be over the type's
    // maximum.
    from = chunk;
    to = Cat("(", to, " - ", chunk, " > ", u.tag(), " ? ", chunk, " + ", u.tag(), " : ", to, ")");
  }
  Open(Cat("for (", type, " ", name, " = ", from, "; ", name, " < ", to, "; ++", name, ")"));
  if (u.tag() == 1) Poll();
  return absl::OkStatus();
}

absl::Status CLikeWriter::Stack(UOp u) {
  if (lane_loops()) {
    std::string list;
    for (UOp s : u.srcs()) Append(list, list.empty() ? "" : ", ", Value(s));
    const std::string name = Fresh(u);
    Put(Type(u.dtype()), " ", name, "[", u.n_src(), "] = {", list, "};");
    return absl::OkStatus();
  }
  const std::string name = Fresh(u);
  for (size_t i = 0; i < u.n_src(); ++i)
    Put("const ", Type(u.dtype()), " ", name, "_", i, " = ", Value(u.src(i)), ";");
  return absl::OkStatus();
}

absl::Status CLikeWriter::Cast(UOp u) {
  const Dtype from = u.src(0).dtype(), to = u.dtype();
  if (SpellingOf(from) == nullptr && from != Dtype::Index) return NoRendering(u);
  if (SpellingOf(to) == nullptr) return NoRendering(u);
  if (to == Dtype::TF32 && Tf32("0").empty()) return NoRendering(u);
  if (to == Dtype::BF16 && (Bf16("0").empty() || from == Dtype::F64)) return NoRendering(u);
  if (from == Dtype::BF16) return NoRendering(u);
  const bool from_bits = from == Dtype::F16 && half_is_bits(),
             to_bits = to == Dtype::F16 && half_is_bits();
  Define(u, [&](const std::string& lane) -> std::string {
    std::string x = Value(u.src(0), lane);
    if (from == Dtype::Index && to == Dtype::I64) return x;
    if (from_bits) x = Cat("half_to_float(", x, ")");
    if (to == Dtype::TF32) return Tf32(Cat("(float)", x));
    if (to == Dtype::BF16) return Bf16(Cat("(float)", x));
    // Integers that f32 rounds are infinities of f16.
    if (to_bits)
      return Cat(from == Dtype::F64 ? "double_to_half(" : "float_to_half((float)", x, ")");
    if (to == Dtype::Bool) return Cat(x, " != 0");
    if (ir::IsFloat(from) && !ir::IsFloat(to)) return Saturated(from, to, x);
    return Cat("(", Type(to), ")", x);
  });
  return absl::OkStatus();
}

// Truncates and saturates; NaN is 0. The limits of the comparisons are 0 or powers of two, exact in
// every float that reaches them; f16 is compared as f32.
std::string CLikeWriter::Saturated(Dtype from, Dtype to, const std::string& x) const {
  const Dtype compared = from == Dtype::F64 ? Dtype::F64 : Dtype::F32;
  const ir::IntRange range = ir::RangeOf(to);
  const auto limit = [&](const UOp constant) { return Constant(constant); };
  const auto whole = [&](ir::Int128 v) { return limit(ctx_.Int(to, static_cast<int64_t>(v))); };
  return Cat("SATURATE(", Type(to), ", ", from == Dtype::F16 ? "(float)" : "", x, ", ",
             whole(range.min), ", ", whole(range.max), ", ",
             FloatText(static_cast<double>(range.min), compared), ", ",
             FloatText(static_cast<double>(range.max + 1), compared), ")");
}

absl::Status CLikeWriter::Alu(UOp u) {
  if (u.n_src() == 0) return NoRendering(u);
  const Dtype operand = u.src(u.n_src() - 1).dtype();
  const OpSpelling* op = SpellingOf(u.op());
  const TypeSpelling* type = SpellingOf(u.dtype());
  if (SpellingOf(operand) == nullptr || type == nullptr) return NoRendering(u);
  std::string_view form = OwnForm(u);
  if (form.empty() && op != nullptr) form = op->C(operand);
  if (form.empty()) return NoRendering(u);
  if (half_is_bits() && operand == Dtype::F16 && !u.Is(Op::WHERE)) return NoRendering(u);
  Define(u, [&](const std::string& lane) {
    std::string out;
    for (size_t i = 0; i < form.size(); ++i) {
      if (form[i] != '$') {
        out += form[i];
        continue;
      }
      const char c = form[++i];
      if (c == 'T') {
        out += Type(u.dtype());
      } else if (c == 'W') {
        out += type->c_wide;
      } else if (c == '@') {  // the name of a function, to its bracket
        const size_t end = form.find('(', i);
        out += Math(form.substr(i + 1, end - i - 1), u.dtype());
        i = end - 1;
      } else {
        out += Value(u.src(static_cast<size_t>(c - '0')), lane);
      }
    }
    return out;
  });
  return absl::OkStatus();
}

}  // namespace uopd::render
