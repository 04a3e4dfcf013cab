// SPDX-License-Identifier: MIT
#include "core/render/c_style.h"

#include <cmath>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/ir/wmma_block.h"
#include "core/render/lines.h"
#include "core/render/spelling.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr std::string_view kPrelude =
    "#include <stdbool.h>\n#include <stdint.h>\n"
    "#define LANES(n) for (int i = 0; i < (n); ++i)\n"
    "#define BITCAST(to_type, from_type, x) (((union { from_type from; to_type to; }){.from = "
    "(x)}).to)\n"
    "// Truncates and saturates; NaN is 0.\n"
    "#define SATURATE(type, x, min, max, below, above) "
    "((x) != (x) ? (type)0 : (x) <= (below) ? (min) : (x) >= (above) ? (max) : (type)(x))\n";

// WMMA of one lane.
constexpr std::string_view kWmma =
    "#define ELEMENT(type, word, i) ((int32_t)(type)((word) >> (8 * (i))))\n"
    "static float wmma_bf16(uint32_t a, uint32_t b, float sum) {\n"
    "  const float low = BITCAST(float, uint32_t, a << 16) * BITCAST(float, uint32_t, b << 16);\n"
    "  return sum + low + BITCAST(float, uint32_t, a & 0xffff0000u) * BITCAST(float, uint32_t, b & "
    "0xffff0000u);\n"
    "}\n"
    "#define HALF(x) (float)BITCAST(_Float16, uint16_t, (uint16_t)(x))\n"
    "static float wmma_f16(uint32_t a, uint32_t b, float sum) {\n"
    "  return sum + HALF(a) * HALF(b) + HALF(a >> 16) * HALF(b >> 16);\n"
    "}\n"
    "#define BYTES(name, first, second) \\\n"
    "  static int32_t name(uint32_t a, uint32_t b, int32_t sum) { \\\n"
    "    uint32_t out = (uint32_t)sum; \\\n"
    "    for (int i = 0; i < 4; ++i) \\\n"
    "      out += (uint32_t)(ELEMENT(first, a, i) * ELEMENT(second, b, i)); \\\n"
    "    return (int32_t)out; \\\n"
    "  }\n"
    "BYTES(wmma_u8_i8, uint8_t, int8_t)\n";

// WMMA_BLOCK, and a word of a row.
constexpr std::string_view kWmmaBlock =
    "static uint32_t word_at(const void *at) {\n"
    "  uint32_t word;\n"
    "  __builtin_memcpy(&word, at, 4);\n"
    "  return word;\n"
    "}\n"
    "#define WMMA_BLOCK(type, dot, sums, rows, columns, words, a, row_bytes, b, stride) \\\n"
    "  for (int64_t i = 0; i < (rows); ++i) { \\\n"
    "    for (int64_t j = 0; j < (columns); ++j) { \\\n"
    "      type sum = 0; \\\n"
    "      for (int64_t k = 0; k < (words); ++k) \\\n"
    "        sum = dot(word_at((const char *)(a) + i * (row_bytes) + 4 * k), \\\n"
    "                  (b)[k * (stride) + j], sum); \\\n"
    "      (sums)[i * (columns) + j] = sum; \\\n"
    "    } \\\n"
    "  }\n"
    "BYTES(wmma_i8_i8, int8_t, int8_t)\n"
    "BYTES(wmma_i8_u8, int8_t, uint8_t)\n"
    "BYTES(wmma_u8_u8, uint8_t, uint8_t)\n";

// A poll: returns from the kernel if the stop word is set.
constexpr std::string_view kPoll = "if (*(const volatile int32_t *)buffers[-1] != 0) return;";

class CWriter {
 public:
  CWriter(ir::UOpContext& ctx, std::span<const std::string> variables)
      : ctx_(ctx), variables_(variables) {}

  absl::StatusOr<std::string> Run(UOp linear, std::string_view name) {
    for (UOp u : linear.srcs()) {
      if (ctx_.Interrupted(8)) return ctx_.CheckInterrupt();
      if (absl::Status s = Line(u); !s.ok())
        return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as C"));
    }
    return Cat(
        kPrelude, has_wmma_ ? kWmma : "", has_blocks_ ? kWmmaBlock : "", "\nvoid ", name,
        "(void **buffers, const int64_t *vars, int64_t thread) {\n  (void)vars, (void)thread;\n",
        body_, "}\n");
  }

 private:
  static absl::Status NoRendering(UOp u) {
    return absl::UnimplementedError(
        Cat("the renderer of C does not support ", Name(u.op()), " of ", Name(u.dtype())));
  }
  static std::string_view Type(Dtype d) { return SpellingOf(d)->c; }

  template <class... T>
  void Put(const T&... parts) {
    body_.append(static_cast<size_t>(indent_) * 2, ' ');
    Append(body_, parts...);
    body_ += '\n';
  }

  static std::string Number(double v) {
    std::string text = Cat(v);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
  static std::string Constant(UOp u) {
    const TypeSpelling& t = *SpellingOf(u.dtype());
    if (ir::IsFloat(u.dtype())) {
      const double v = u.const_float();
      if (std::isnan(v)) return "__builtin_nanf(\"\")";
      if (std::isinf(v)) return v < 0 ? "-__builtin_inff()" : "__builtin_inff()";
      std::string text = Number(v);
      if (t.dtype != Dtype::F64) text += "f";
      return std::signbit(v) ? Cat("(", text, ")") : text;
    }
    if (u.dtype() == Dtype::Bool) return u.const_int() != 0 ? "true" : "false";
    if (u.dtype() == Dtype::U64) return Cat(static_cast<uint64_t>(u.const_int()), t.c_suffix);
    if (u.const_int() == INT64_MIN) return "INT64_MIN";
    std::string text = Cat(u.const_int(), t.c_suffix);
    return u.const_int() < 0 ? Cat("(", text, ")") : text;
  }
  // The text of u: a scalar, or lane i of a vector.
  std::string Operand(UOp u) {
    if (u.Is(Op::CONST)) return Constant(u);
    const std::string& name = names_.at(u.id());
    return Lanes(ctx_, u) > 0 ? Cat(name, "[i]") : name;
  }

  std::string Fresh(UOp u) { return names_[u.id()] = Cat("v", names_.size()); }

  // Declares a variable for u and assigns the expression to it, lane by lane if u is a vector.
  void Define(UOp u, std::string_view expression) {
    const int64_t n = Lanes(ctx_, u);
    const std::string name = Fresh(u);
    if (n == 0) return Put(Type(u.dtype()), " ", name, " = ", expression, ";");
    Put(Type(u.dtype()), " ", name, "[", n, "];");
    Put("LANES(", n, ") ", name, "[i] = ", expression, ";");
  }

  absl::Status Line(UOp u) {
    switch (u.op()) {
      case Op::PARAM:
        if (SpellingOf(u.dtype()) == nullptr) return NoRendering(u);
        names_[u.id()] = Cat("b", u.slot());
        Put(Type(u.dtype()), " *b", u.slot(), " = buffers[", u.slot(), "];");
        return absl::OkStatus();
      case Op::BUFFER:
        names_[u.id()] = Cat("acc", u.slot());
        if (IsShared(u)) {
          Put("char *acc", u.slot(), " = (char *)buffers[-2] + ", shared_bytes_, ";");
          shared_bytes_ += (*ctx_.ShapeOf(u))[0].const_int() * kSharedElement;
          return absl::OkStatus();
        }
        if (!IsRegister(u)) return NoRendering(u);
        Put(Type(u.dtype()), " acc", u.slot(), "[", (*ctx_.ShapeOf(u))[0].const_int(), "];");
        return absl::OkStatus();
      case Op::DEFINE_VAR:
        return Variable(u);
      case Op::SPECIAL:
        Define(u, "thread");
        return absl::OkStatus();
      case Op::AFTER:
        names_[u.id()] = std::string(names_.at(u.src(0).id()));  // a copy: the table may grow
        return absl::OkStatus();
      case Op::GROUP:
        return absl::OkStatus();
      case Op::INDEX:
        if (IsShared(ir::MaybeBaseOf(u.src(0)))) {
          names_[u.id()] = Cat("(*(", Type(u.dtype()), " *)(", names_.at(u.src(0).id()), " + ",
                               kSharedElement, " * ", Operand(u.src(1)), "))");
          return absl::OkStatus();
        }
        names_[u.id()] = Cat(names_.at(u.src(0).id()), "[", Operand(u.src(1)), "]");
        return absl::OkStatus();
      case Op::RANGE: {
        const std::string name = names_[u.id()] = Cat("r", u.axis_id());
        std::string from = "0", to = Operand(u.src(0));
        if (u.tag() > 1) {
          // Two loops: the outer one over chunks polls, the inner one runs over a chunk.
          const std::string chunk = Cat("c", u.axis_id());
          Put("for (", Type(u.dtype()), " ", chunk, " = 0; ", chunk, " < ", to, "; ", chunk,
              " += ", u.tag(), ") {");
          ++indent_;
          Put(kPoll);
          const std::string end = Cat(chunk, " + ", u.tag());
          from = chunk;
          to = Cat("(", end, " < ", to, " ? ", end, " : ", to, ")");
        }
        Put("for (", Type(u.dtype()), " ", name, " = ", from, "; ", name, " < ", to, "; ++", name,
            ") {");
        ++indent_;
        if (u.tag() == 1) Put(kPoll);
        return absl::OkStatus();
      }
      case Op::END:
        for (size_t i = 1; i < u.n_src(); ++i) {
          --indent_;
          Put("}");
          if (u.src(i).tag() > 1) {
            --indent_;
            Put("}");
          }
        }
        return absl::OkStatus();
      case Op::LOAD:
        return Load(u);
      case Op::STORE:
        return Store(u);
      case Op::GEP:
        Fresh(u);
        Put(Type(u.dtype()), " ", names_[u.id()], " = ", names_.at(u.src(0).id()), "[",
            u.arg().AsInt(), "];");
        return absl::OkStatus();
      case Op::STACK:
        return Stack(u);
      case Op::CAST:
        return Cast(u);
      case Op::BITCAST:
        Define(u, Cat("BITCAST(", Type(u.dtype()), ", ", Type(u.src(0).dtype()), ", ",
                      Operand(u.src(0)), ")"));
        return absl::OkStatus();
      case Op::WMMA:
        has_wmma_ = true;
        Define(u, Cat(WmmaFunction(u.ints()[0], u.ints()[1]), "(", Operand(u.src(0)), ", ",
                      Operand(u.src(1)), ", ", u.n_src() == 3 ? Operand(u.src(2)) : "0", ")"));
        return absl::OkStatus();
      case Op::WMMA_BLOCK:
        return WmmaBlock(u);
      default:
        return Alu(u);
    }
  }

  // The function that multiplies two words of these elements (kWmma, kWmmaBlock).
  static std::string WmmaFunction(int64_t a, int64_t b) {
    const auto name = [](int64_t number) {
      return Name(*ir::DtypeByWire(static_cast<uint64_t>(number)));
    };
    return a == b && ir::IsFloat(*ir::DtypeByWire(static_cast<uint64_t>(a)))
               ? Cat("wmma_", name(a))
               : Cat("wmma_", name(a), "_", name(b));
  }

  absl::Status WmmaBlock(UOp u) {
    has_wmma_ = has_blocks_ = true;
    const ir::WmmaBlock block = ir::WmmaBlock::Of(u);
    Put("WMMA_BLOCK(", Type(u.src(0).dtype()), ", ", WmmaFunction(block.a, block.b), ", &",
        Place(u.src(0)), ", ", block.rows, ", ", block.columns, ", ", block.words, ", &",
        Place(u.src(1)), ", ", block.row_stride * ir::ByteSize(u.src(1).dtype()), ", &",
        Place(u.src(2)), ", ", block.word_stride, ")");
    return absl::OkStatus();
  }

  absl::Status Variable(UOp u) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i] != u.text()) continue;
      names_[u.id()] = Cat("var", i);
      Put("const int64_t var", i, " = vars[", i, "];  // ", u.text());
      return absl::OkStatus();
    }
    return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
  }

  static UOp GateOf(UOp index) { return index.n_src() == 3 ? index.src(2) : UOp(); }
  // The lvalue that an INDEX points to; its lane i if the INDEX has lanes.
  std::string Place(UOp index) {
    const std::string& at = names_.at(index.id());
    if (index.arg().AsInt() == 0) return at;
    return Cat("(&", at, ")[i]");
  }

  // The address of the flag of an element of a shared array.
  std::string FlagOf(UOp index) {
    return Cat("(int32_t *)((char *)&", Place(index), " + ", kSharedFlag, ")");
  }

  absl::Status Load(UOp u) {
    const UOp index = u.src(0), gate = GateOf(index);
    if (IsShared(ir::MaybeBaseOf(index.src(0)))) {
      Put("while (", gate ? Cat(Operand(gate), " && ") : std::string(), "__atomic_load_n(",
          FlagOf(index), ", __ATOMIC_ACQUIRE) == 0) {");
      ++indent_;
      Put(kPoll);
      --indent_;
      Put("}");
    }
    Define(u, gate ? Cat(Operand(gate), " ? ", Place(index), " : 0") : Place(index));
    return absl::OkStatus();
  }
  absl::Status Store(UOp u) {
    const UOp index = u.src(0), gate = GateOf(index);
    const int64_t n = index.arg().AsInt();
    Put(n > 0 ? Cat("LANES(", n, ") ") : std::string(),
        gate ? Cat("if (", Operand(gate), ") ") : std::string(), Place(index), " = ",
        Operand(u.src(1)), ";");
    if (IsShared(ir::MaybeBaseOf(index.src(0))))
      Put("__atomic_store_n(", FlagOf(index), ", 1, __ATOMIC_RELEASE);");
    return absl::OkStatus();
  }
  absl::Status Stack(UOp u) {
    std::string list;
    for (UOp s : u.srcs()) Append(list, list.empty() ? "" : ", ", Operand(s));
    const std::string name = Fresh(u);
    Put(Type(u.dtype()), " ", name, "[", u.n_src(), "] = {", list, "};");
    return absl::OkStatus();
  }

  absl::Status Cast(UOp u) {
    const Dtype from = u.src(0).dtype(), to = u.dtype();
    const std::string x = Operand(u.src(0));
    if (from == Dtype::Index && to == Dtype::I64) {
      Define(u, x);
      return absl::OkStatus();
    }
    if (SpellingOf(from) == nullptr && from != Dtype::Index) return NoRendering(u);
    if (SpellingOf(to) == nullptr) return NoRendering(u);
    if (to == Dtype::Bool) {
      Define(u, Cat(x, " != 0"));
    } else if (ir::IsFloat(from) && !ir::IsFloat(to)) {
      const ir::IntRange range = ir::RangeOf(to);
      const std::string_view type = Type(to);
      const std::string min = to == Dtype::I64 ? "INT64_MIN" : Cat("(", type, ")(", range.min, ")");
      const std::string max = to == Dtype::U64   ? "UINT64_MAX"
                              : to == Dtype::I64 ? "INT64_MAX"
                                                 : Cat("(", type, ")(", range.max, ")");
      // Compare as doubles: min and max + 1 are 0 or powers of two, so both are exact.
      Define(u, Cat("SATURATE(", type, ", (double)", x, ", ", min, ", ", max, ", ",
                    Number(static_cast<double>(range.min)), ", ",
                    Number(static_cast<double>(range.max + 1)), ")"));
    } else {
      Define(u, Cat("(", Type(to), ")", x));
    }
    return absl::OkStatus();
  }

  absl::Status Alu(UOp u) {
    const OpSpelling* op = SpellingOf(u.op());
    if (op == nullptr) return NoRendering(u);
    const Dtype operand = u.src(u.n_src() - 1).dtype();
    const TypeSpelling* type = SpellingOf(u.dtype());
    if (SpellingOf(operand) == nullptr || type == nullptr) return NoRendering(u);
    const std::string_view form = op->C(operand);
    if (form.empty()) return NoRendering(u);
    std::string out;
    for (size_t i = 0; i < form.size(); ++i) {
      if (form[i] != '$') {
        out += form[i];
        continue;
      }
      const char c = form[++i];
      if (c == 'T')
        out += type->c;
      else if (c == 'W')
        out += type->c_wide;
      else if (c == 'F')
        out += u.dtype() == Dtype::F64 ? "" : "f";
      else
        out += Operand(u.src(static_cast<size_t>(c - '0')));
    }
    Define(u, out);
    return absl::OkStatus();
  }

  ir::UOpContext& ctx_;
  std::span<const std::string> variables_;
  absl::flat_hash_map<uint32_t, std::string> names_;
  std::string body_;
  int indent_ = 1;
  int64_t shared_bytes_ = 0;  // of the arrays so far
  bool has_wmma_ = false, has_blocks_ = false;
};

}  // namespace

absl::StatusOr<std::string> RenderC(ir::UOpContext& ctx, UOp linear, std::string_view name,
                                    std::span<const std::string> variables) {
  return CWriter(ctx, variables).Run(linear, name);
}

}  // namespace uopd::render
