// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <cmath>

#include "core/ir/wmma_block.h"
#include "core/render/c_like/writer.h"

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

class CWriter final : public CLikeWriter {
 public:
  using CLikeWriter::CLikeWriter;

 protected:
  std::string_view language() const override { return "C"; }
  bool lane_loops() const override { return true; }
  std::string Math(std::string_view function, Dtype dtype) const override {
    return Cat("__builtin_", function, dtype == Dtype::F64 ? "" : "f");
  }
  std::string Bitcast(Dtype to, Dtype from, const std::string& x) const override {
    return Cat("BITCAST(", Type(to), ", ", Type(from), ", ", x, ")");
  }
  std::string NotFinite(double value, Dtype) const override {
    if (std::isnan(value)) return "__builtin_nanf(\"\")";
    return value < 0 ? "-__builtin_inff()" : "__builtin_inff()";
  }
  std::string Module(const std::string& body) override {
    return Cat(kPrelude, has_wmma_ ? kWmma : "", has_blocks_ ? kWmmaBlock : "", "\nvoid ",
               request_.name,
               "(void **buffers, const int64_t *vars, int64_t thread) {\n  (void)vars, "
               "(void)thread;\n",
               body, "}\n");
  }
  void Poll() override { Put("if (*(const volatile int32_t *)buffers[-1] != 0) return;"); }
  void Begin() override {
    for (size_t i = 0; i < variables_.size(); ++i)
      Put("const int64_t var", i, " = vars[", i, "];  // ", variables_[i]);
  }

  absl::Status OwnLine(UOp u) override {
    switch (u.op()) {
      case Op::PARAM:
        if (SpellingOf(u.dtype()) == nullptr) return NoRendering(u);
        SetName(u, Cat("b", u.slot()));
        Put(Type(u.dtype()), " *b", u.slot(), " = buffers[", u.slot(), "];");
        return absl::OkStatus();
      case Op::BUFFER:
        return Array(u);
      case Op::SPECIAL:
        if (static_cast<ir::AxisType>(u.ints()[0]) != ir::AxisType::THREAD) return NoRendering(u);
        Define(u, [](const std::string&) { return std::string("thread"); });
        return absl::OkStatus();
      case Op::INDEX: {
        const std::string& array = NameOf(u.src(0));
        SetName(u, IsShared(ir::MaybeBaseOf(u.src(0)))
                       ? Cat("(*(", Type(u.dtype()), " *)(", array, " + ", kSharedElement, " * ",
                             Value(u.src(1)), "))")
                       : Cat(array, "[", Value(u.src(1)), "]"));
        return absl::OkStatus();
      }
      case Op::LOAD:
        Load(u);
        return absl::OkStatus();
      case Op::STORE:
        Store(u);
        return absl::OkStatus();
      case Op::WMMA:
        has_wmma_ = true;
        Define(u, [&](const std::string& lane) {
          return Cat(WmmaFunction(u.ints()[0], u.ints()[1]), "(", Value(u.src(0), lane), ", ",
                     Value(u.src(1), lane), ", ", u.n_src() == 3 ? Value(u.src(2), lane) : "0",
                     ")");
        });
        return absl::OkStatus();
      case Op::WMMA_BLOCK:
        WmmaBlock(u);
        return absl::OkStatus();
      default:
        return NoRendering(u);
    }
  }

 private:
  absl::Status Array(UOp u) {
    SetName(u, Cat("acc", u.slot()));
    const int64_t elements = (*ctx_.ShapeOf(u))[0].const_int();
    if (IsShared(u)) {
      Put("char *acc", u.slot(), " = (char *)buffers[-2] + ", shared_bytes_, ";");
      shared_bytes_ += elements * kSharedElement;
      return absl::OkStatus();
    }
    if (!IsRegister(u)) return NoRendering(u);
    Put(Type(u.dtype()), " acc", u.slot(), "[", elements, "];");
    return absl::OkStatus();
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

  void WmmaBlock(UOp u) {
    has_wmma_ = has_blocks_ = true;
    const ir::WmmaBlock block = ir::WmmaBlock::Of(u);
    Put("WMMA_BLOCK(", Type(u.src(0).dtype()), ", ", WmmaFunction(block.a, block.b), ", &",
        Place(u.src(0)), ", ", block.rows, ", ", block.columns, ", ", block.words, ", &",
        Place(u.src(1)), ", ", block.row_stride * ir::ByteSize(u.src(1).dtype()), ", &",
        Place(u.src(2)), ", ", block.word_stride, ")");
  }

  static UOp GateOf(UOp index) { return index.n_src() == 3 ? index.src(2) : UOp(); }
  // The lvalue that an INDEX points to; its lane i if the INDEX has lanes.
  std::string Place(UOp index) {
    const std::string& at = NameOf(index);
    if (index.arg().AsInt() == 0) return at;
    return Cat("(&", at, ")[i]");
  }

  // The address of the flag of an element of a shared array.
  std::string FlagOf(UOp index) {
    return Cat("(int32_t *)((char *)&", Place(index), " + ", kSharedFlag, ")");
  }

  void Load(UOp u) {
    const UOp index = u.src(0), gate = GateOf(index);
    if (IsShared(ir::MaybeBaseOf(index.src(0)))) {
      Open(Cat("while (", gate ? Cat(Value(gate), " && ") : std::string(), "__atomic_load_n(",
               FlagOf(index), ", __ATOMIC_ACQUIRE) == 0)"));
      Poll();
      Close();
    }
    Define(u, [&](const std::string&) {
      return gate ? Cat(Value(gate), " ? ", Place(index), " : 0") : Place(index);
    });
  }

  void Store(UOp u) {
    const UOp index = u.src(0), gate = GateOf(index);
    const int64_t n = index.arg().AsInt();
    Put(n > 0 ? Cat("LANES(", n, ") ") : std::string(),
        gate ? Cat("if (", Value(gate), ") ") : std::string(), Place(index), " = ", Value(u.src(1)),
        ";");
    if (IsShared(ir::MaybeBaseOf(index.src(0))))
      Put("__atomic_store_n(", FlagOf(index), ", 1, __ATOMIC_RELEASE);");
  }

  int64_t shared_bytes_ = 0;  // of the arrays so far
  bool has_wmma_ = false, has_blocks_ = false;
};

}  // namespace

absl::StatusOr<std::string> RenderC(ir::UOpContext& ctx, UOp linear, std::string_view name,
                                    std::span<const std::string> variables) {
  static const Target kAny;
  return CWriter({ctx, linear, name, variables, kAny, 0}).Run();
}

}  // namespace uopd::render
