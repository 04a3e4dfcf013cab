// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <cmath>

#include "core/render/c_like/block_writer.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::UOp;

constexpr BlockWriter::Part kHipPrelude[] = {
    BlockWriter::kIntegers,
    BlockWriter::kSaturate,
    BlockWriter::kWideType,
    {"Vector<",
     "template <class T, int n> using Vector = T __attribute__((ext_vector_type(n)));\n"},
    {"barrier(",
     "static __attribute__((device)) inline void barrier() {\n"
     "  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
     "  __builtin_amdgcn_s_barrier();\n"
     "  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
     "}\n"},
    {"shuffled<",
     "template <class T> static __attribute__((device)) inline T shuffled(T x, int mask) {\n"
     "  union { T value; int words[(sizeof(T) + 3) / 4]; } u = {};\n"
     "  u.value = x;\n"
     "  const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));\n"
     "  for (int &word : u.words) word = __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, word);\n"
     "  return u.value;\n"
     "}\n"}};

// A built-in function for a matrix instruction: its name, and the elements of its operands.
struct HipMatrix {
  std::string_view instruction;  // MatrixInstruction::name
  int k;
  std::string_view processors;  // that have it
  std::string_view function, element;
  int a_elements;  // of an operand; 0: the words are one integer of the element type
};
constexpr HipMatrix kHipMatrices[] = {
    {"mfma_bf16", 16, "gfx90a gfx942", "mfma_f32_16x16x16bf16_1k", "int16_t", 4},
    {"mfma_f16", 16, "gfx90a gfx942", "mfma_f32_16x16x16f16", "_Float16", 4},
    {"mfma_i8", 16, "gfx90a", "mfma_i32_16x16x16i8", "int32_t", 0},
    {"mfma_i8", 32, "gfx942", "mfma_i32_16x16x32_i8", "long", 0},
    {"wmma_bf16", 16, "gfx1100", "wmma_f32_16x16x16_bf16_w32", "int16_t", 16},
    {"wmma_f16", 16, "gfx1100", "wmma_f32_16x16x16_f16_w32", "_Float16", 16},
    {"wmma_bf16", 16, "gfx1201", "wmma_f32_16x16x16_bf16_w32_gfx12", "int16_t", 8},
    {"wmma_f16", 16, "gfx1201", "wmma_f32_16x16x16_f16_w32_gfx12", "_Float16", 8},
};

class HipWriter final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

 protected:
  std::string_view language() const override { return "HIP C"; }
  std::string Math(std::string_view function, Dtype dtype) const override {
    return Cat("__builtin_", function, dtype == Dtype::F64 ? "" : "f");
  }
  std::string Bitcast(Dtype to, Dtype, const std::string& x) const override {
    return Cat("__builtin_bit_cast(", Type(to), ", ", x, ")");
  }
  std::string NotFinite(double value, Dtype) const override {
    return std::isnan(value) ? "__builtin_nanf(\"\")"
           : value < 0       ? "-__builtin_inff()"
                             : "__builtin_inff()";
  }
  std::string FunctionHead() const override {
    return Cat("extern \"C\" __attribute__((global)) void ",
               threads() > 0 ? Cat("__attribute__((amdgpu_flat_work_group_size(", threads(), ", ",
                                   threads(), "))) ")
                             : std::string());
  }
  std::string BlockNumber(int64_t d) const override {
    return Cat("__builtin_amdgcn_workgroup_id_", "xyz"[d], "()");
  }
  std::string ThreadNumber(int64_t d) const override {
    return Cat("__builtin_amdgcn_workitem_id_", "xyz"[d], "()");
  }
  std::string_view barrier() const override { return "barrier();"; }
  std::string SharedArrays(int64_t bytes) const override {
    return Cat("static __attribute__((shared, aligned(128))) uint8_t shared[", bytes, "];");
  }
  std::string_view shared_word() const override {
    return "static __attribute__((shared)) int32_t stop_seen;";
  }
  std::string Prelude(const std::string& body) override { return UsedParts(kHipPrelude, body); }
  std::string WideType(Dtype d, int64_t lanes) override {
    return Cat("Wide<", MemoryType(d), ", ", lanes, ">");
  }
  std::string WideLane(const std::string& wide, int64_t lane) const override {
    return Cat(wide, ".v[", lane, "]");
  }
  absl::StatusOr<std::string> Shuffled(UOp u, const std::string& x, int64_t mask) override {
    return Cat("shuffled<", Type(u.dtype()), ">(", x, ", ", mask, ")");
  }

  absl::Status Mma(UOp u, const MatrixInstruction& i) override {
    const ir::Mma mma = ir::Mma::Of(u);
    const HipMatrix* found = nullptr;
    for (const HipMatrix& m : kHipMatrices) {
      if (m.instruction == i.name && m.k == i.k &&
          m.processors.find(request_.target.arch) != std::string_view::npos)
        found = &m;
    }
    if (found == nullptr) return NoRendering(u);
    const std::string name = Fresh(u);
    const auto operand = [&](UOp words, int64_t n) {
      std::string list;
      for (int64_t e = 0; e < n; ++e) Append(list, e == 0 ? "" : ", ", Value(words, Cat(e)));
      const std::string type = found->a_elements == 0
                                   ? std::string(found->element)
                                   : Cat("Vector<", found->element, ", ", found->a_elements, ">");
      if (n == 1) return Cat("__builtin_bit_cast(", type, ", ", list, ")");
      return Cat("__builtin_bit_cast(", type, ", Vector<uint32_t, ", n, ">{", list, "})");
    };
    std::string sums;
    for (int64_t e = 0; e < mma.results(); ++e)
      Append(sums, e == 0 ? "" : ", ", u.n_src() == 3 ? Value(u.src(2), Cat(e)) : "0");
    const bool mfma = found->function.starts_with("mfma");
    const std::string type = Cat("Vector<", Type(u.dtype()), ", ", mma.results(), ">");
    Put("const ", type, " ", name, " = __builtin_amdgcn_", found->function, "(",
        operand(u.src(0), mma.a_words), ", ", operand(u.src(1), mma.b_words), ", ", type, "{", sums,
        "}", mfma ? ", 0, 0, 0" : "", ");");
    for (int64_t e = 0; e < mma.results(); ++e)
      Put("const ", Type(u.dtype()), " ", name, "_", e, " = ", name, "[", e, "];");
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::string> RenderHipC(const Request& request) { return HipWriter(request).Run(); }

}  // namespace uopd::render
