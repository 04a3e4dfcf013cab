// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <cmath>

#include "core/ir/exp2.h"
#include "core/render/c_like/block_writer.h"
#include "core/render/ptx/bulk.h"
#include "core/render/ptx/matrix.h"
#include "core/render/ptx/types.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::UOp;

constexpr BlockWriter::Part kCudaPrelude[] = {
    BlockWriter::kIntegers,
    BlockWriter::kSaturate,
    BlockWriter::kWideType,
    {"bitcast<",
     "template <class To, class From> static __device__ __forceinline__ To bitcast(From x) {\n"
     "  union { From from; To to; } u;\n"
     "  u.from = x;\n"
     "  return u.to;\n"
     "}\n"},
    {"to_tf32(",
     "static __device__ __forceinline__ float to_tf32(float x) {\n"
     "  uint32_t out;\n"
     "  asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(out) : \"f\"(x));\n"
     "  return __uint_as_float(out);\n"
     "}\n"},
    {"to_bf16(",
     "static __device__ __forceinline__ uint16_t to_bf16(float x) {\n"
     "  uint16_t out;\n"
     "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(out) : \"f\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"exp2_near(",
     "static __device__ __forceinline__ float exp2_near(float x) {\n"
     "  float out;\n"
     "  asm(\"ex2.approx.f32 %0, %1;\" : \"=f\"(out) : \"f\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"exp2_flush(",
     "static __device__ __forceinline__ float exp2_flush(float x) {\n"
     "  float out;\n"
     "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(out) : \"f\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"max_or_nan(",
     "static __device__ __forceinline__ float max_or_nan(float x, float y) {\n"
     "  float out;\n"
     "  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(out) : \"f\"(x), \"f\"(y));\n"
     "  return out;\n"
     "}\n"},
    {"half_to_float(",
     "static __device__ __forceinline__ float half_to_float(uint16_t x) {\n"
     "  float out;\n"
     "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(out) : \"h\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"float_to_half(",
     "static __device__ __forceinline__ uint16_t float_to_half(float x) {\n"
     "  uint16_t out;\n"
     "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(out) : \"f\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"double_to_half(",
     "static __device__ __forceinline__ uint16_t double_to_half(double x) {\n"
     "  uint16_t out;\n"
     "  asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(out) : \"d\"(x));\n"
     "  return out;\n"
     "}\n"},
    {"global_address(",
     "static __device__ __forceinline__ uint64_t global_address(const void *p) {\n"
     "  uint64_t out;\n"
     "  asm(\"cvta.to.global.u64 %0, %1;\" : \"=l\"(out) : \"l\"(p));\n"
     "  return out;\n"
     "}\n"},
    {"shared_at",
     "static __device__ __forceinline__ uint32_t shared_address(const void *p) {\n"
     "  uint32_t out;\n"
     "  asm(\"{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }\" : \"=r\"(out) : "
     "\"l\"(p));\n"
     "  return out;\n"
     "}\n"},
    {"&map", "struct alignas(64) TensorMap { uint64_t words[16]; };\n"},
    // Whether the phase is over; it waits for some time.
    {"phase_over(",
     "static __device__ __forceinline__ bool phase_over(uint32_t barrier, uint32_t parity) {\n"
     "  uint32_t out;\n"
     "  asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
     "selp.u32 %0, 1, 0, p; }\" : \"=r\"(out) : \"r\"(barrier), \"r\"(parity) : "
     "\"memory\");\n"
     "  return out != 0;\n"
     "}\n"}};

class CudaWriter final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

 protected:
  std::string_view language() const override { return "CUDA C"; }
  bool half_is_bits() const override { return true; }
  std::string Tf32(const std::string& x) const override { return Cat("to_tf32(", x, ")"); }
  std::string Bf16(const std::string& x) const override { return Cat("to_bf16(", x, ")"); }
  std::string_view OwnForm(UOp u) const override {
    if (u.dtype() != Dtype::F32) return {};
    if (u.Is(ir::Op::EXP2)) return u.tag() == ir::kFlushes ? "exp2_flush($0)" : "exp2_near($0)";
    return u.Is(ir::Op::MAX) ? "max_or_nan($0, $1)" : "";
  }
  std::string Math(std::string_view function, Dtype dtype) const override {
    return Cat(function, dtype == Dtype::F64 ? "" : "f");
  }
  std::string Bitcast(Dtype to, Dtype, const std::string& x) const override {
    return Cat("bitcast<", Type(to), ">(", x, ")");
  }
  std::string NotFinite(double value, Dtype) const override {
    return std::isnan(value) ? "__int_as_float(0x7fc00000)"
           : value < 0       ? "__int_as_float(0xff800000)"
                             : "__int_as_float(0x7f800000)";
  }
  std::string FunctionHead() const override {
    return Cat("extern \"C\" __global__ void ",
               threads() > 0 ? Cat("__launch_bounds__(", threads(),
                                   kernel().SetsRegisters() ? ", 1" : "", ") ")
                             : std::string());
  }
  std::string BlockNumber(int64_t d) const override { return Cat("blockIdx.", "xyz"[d]); }
  std::string ThreadNumber(int64_t d) const override { return Cat("threadIdx.", "xyz"[d]); }
  std::string_view barrier() const override { return "__syncthreads();"; }
  std::string SharedArrays(int64_t) const override {
    return Cat("extern __shared__ __align__(", shared_alignment(), ") uint8_t shared[];",
               uses_shared_at_ ? "\n  const uint32_t shared_at = shared_address(shared);" : "");
  }
  std::string_view shared_word() const override { return "__shared__ int32_t stop_seen;"; }
  std::string Prelude(const std::string& body) override { return UsedParts(kCudaPrelude, body); }
  std::string WideType(Dtype d, int64_t lanes) override {
    return Cat("Wide<", MemoryType(d), ", ", lanes, ">");
  }
  std::string WideLane(const std::string& wide, int64_t lane) const override {
    return Cat(wide, ".v[", lane, "]");
  }
  void PollTogether() override {
    // No thread ends while its matrix instructions run.
    const std::string_view wait =
        has_groups() ? "asm volatile(\"wgmma.wait_group.sync.aligned 0;\" : : : \"memory\"); " : "";
    // The word is in the host's memory, and a read of it by each warp takes a chip's bus for half a
    // microsecond.
    Put("if (__syncthreads_or(", ThreadNumber(0), " == 0 && *stop)) ", wait.empty() ? "" : "{ ",
        wait, wait.empty() ? "return;" : "return; }");
  }

  absl::StatusOr<std::string> Shuffled(UOp u, const std::string& x, int64_t mask) override {
    const bool small = ir::ByteSize(u.dtype()) < 4;
    return Cat("(", Type(u.dtype()), ")__shfl_xor_sync(0xffffffffu, ", small ? "(int32_t)" : "", x,
               ", ", mask, ")");
  }

  // The address of an element as instructions for shared memory take it: one number for all arrays,
  // and an offset that compilers put into the instruction.
  std::string At(UOp index) {
    uses_shared_at_ = true;
    return Cat("shared_at + (uint32_t)(", SharedPlace(index), ")");
  }

  absl::Status Async(UOp u) override {
    if (!u.Is(ir::Op::ASYNC_COPY)) {
      Put("asm volatile(\"", PtxAsync(u), ";\" : : : \"memory\");");
      return absl::OkStatus();
    }
    const UOp to = u.src(0), from = u.src(1);
    // A copy of no bytes writes zeros.
    Put(to.n_src() == 3 ? Cat("if (", Value(to.src(2)), ") ") : std::string(), "asm volatile(\"",
        PtxAsync(u), " [%0], [%1], 16, %2;\" : : \"r\"(", At(to), "), \"l\"(global_address(",
        NameOf(from), ")), \"r\"(",
        from.n_src() == 3 ? Cat(Value(from.src(2)), " ? 16 : 0") : std::string("16"),
        ") : \"memory\");");
    return absl::OkStatus();
  }

  std::string_view map_type() const override { return "const __grid_constant__ TensorMap"; }

  absl::Status Bulk(UOp u) override {
    const UOp first = u.src(0);
    const std::string gate =
        first.n_src() == 3 ? Cat("if (", Value(first.src(2)), ") ") : std::string();
    const auto at = [&](UOp index, int64_t offset = 0) {
      return Cat("\"r\"(", At(index), offset > 0 ? Cat(" + ", offset) : std::string(), ")");
    };
    if (u.Is(ir::Op::BULK_INIT)) {
      for (int64_t i = 0; i < std::max<int64_t>(1, first.arg().AsInt()); ++i)
        Put(gate, "asm volatile(\"", PtxBulk(u), " [%0], ", u.arg().AsInt(),
            ";\" : : ", at(first, 8 * i), " : \"memory\");");
      Put("asm volatile(\"", kPtxBulkInitFence, ";\" : : : \"memory\");");
    } else if (u.Is(ir::Op::BULK_EXPECT)) {
      Put(gate, "asm volatile(\"", PtxBulk(u), " _, [%0], ", u.ints()[0], ";\" : : ", at(first),
          " : \"memory\");");
    } else if (u.Is(ir::Op::BULK_ARRIVE)) {
      Put(gate, "asm volatile(\"", PtxBulk(u), " _, [%0];\" : : ", at(first), " : \"memory\");");
    } else if (u.Is(ir::Op::BULK_WAIT)) {
      Put("while (!phase_over(", At(first), ", (uint32_t)(", Value(u.src(1)), "))) {}");
    } else {
      std::string list, values;
      for (size_t i = 3; i < u.n_src(); ++i) {
        Append(list, i == 3 ? "{%" : ", %", i);
        Append(values, ", \"r\"((int32_t)(", Value(u.src(i)), "))");
      }
      Put(gate, "asm volatile(\"", PtxBulk(u), " [%0], [%1, ", list, "}], [%2];\" : : ", at(first),
          ", \"l\"(&map", kernel().MapNumber(u), "), ", at(u.src(2)), values, " : \"memory\");");
    }
    return absl::OkStatus();
  }

  absl::Status SetRegisters(const ir::WarpRole& role) override {
    Put("asm volatile(\"", PtxSetRegisters(role, threads()), ";\" : : : \"memory\");");
    return absl::OkStatus();
  }

  absl::Status MatrixLoad(UOp u) override {
    const int64_t n = u.ints()[0];
    const std::string name = Fresh(u);
    std::string words, group, outputs;
    for (int64_t i = 0; i < n; ++i) {
      const std::string_view comma = i == 0 ? "" : ", ";
      Append(words, comma, name, "_", i);
      Append(group, comma, "%", i);
      Append(outputs, comma, "\"=r\"(", name, "_", i, ")");
    }
    Put("uint32_t ", words, ";");
    Put("asm volatile(\"", PtxMatrixLoad(u), " {", group, "}, [%", n, "];\" : ", outputs,
        " : \"r\"(", At(u.src(0)), ") : \"memory\");");
    return absl::OkStatus();
  }

  // Names every accumulator that it is about as an operand: what uses one stays where it is.
  absl::Status Group(UOp u) override {
    std::string operands;
    int64_t number = 0;
    const auto add = [&](UOp sums) {
      const std::string_view kind = ir::IsFloat(sums.dtype()) ? "+f" : "+r";
      for (int64_t e = 0; e < sums.arg().AsInt(); ++e, ++number)
        Append(operands, number == 0 ? "" : ", ", "\"", kind, "\"(", Place(sums, e), ")");
    };
    if (!u.Is(ir::Op::GROUP_MMA)) {
      if (u.Is({ir::Op::MMA_BEGIN, ir::Op::MMA_WAIT})) {
        for (UOp s : u.srcs()) add(s);
      }
      Put("asm volatile(\"", PtxGroupOrder(u), ";\" : ", operands, " : : \"memory\");");
      return absl::OkStatus();
    }
    UOPD_ASSIGN(const PtxGroupInstruction instruction, PtxGroupMma(request_.target, u));
    const ir::GroupMma mma = ir::GroupMma::Of(u);
    add(u.src(0));
    std::string list;
    for (int64_t e = 0; e < number; ++e) Append(list, e == 0 ? "{%" : ", %", e);
    const auto descriptor = [&](UOp index, const ir::SharedMatrix& matrix) {
      return Cat("\"l\"(", PtxDescriptor(matrix), "ull + ((", At(index), ") >> 4))");
    };
    Put("asm volatile(\"", instruction.name, " ", list, "}, %", number, ", %", number + 1,
        instruction.after_operands, ";\" : ", operands, " : ", descriptor(u.src(1), mma.a_matrix),
        ", ", descriptor(u.src(2), mma.b_matrix), " : \"memory\");");
    return absl::OkStatus();
  }

  absl::Status Mma(UOp u, const MatrixInstruction& i) override {
    const ir::Mma mma = ir::Mma::Of(u);
    const bool is_float = ir::IsFloat(u.dtype());
    const std::string name = Fresh(u);
    int64_t number = 0;
    std::string results, groups, outputs, inputs;
    const auto group = [&](int64_t n, const auto& operand) {
      Append(groups, groups.empty() ? "{" : ", {");
      for (int64_t e = 0; e < n; ++e, ++number) {
        Append(groups, e == 0 ? "%" : ", %", number);
        operand(e);
      }
      groups += '}';
    };
    const auto input = [&](std::string_view kind, const std::string& value) {
      Append(inputs, inputs.empty() ? "" : ", ", "\"", kind, "\"(", value, ")");
    };
    group(mma.results(), [&](int64_t e) {
      Append(results, e == 0 ? "" : ", ", name, "_", e);
      Append(outputs, e == 0 ? "" : ", ", is_float ? "\"=f\"(" : "\"=r\"(", name, "_", e, ")");
    });
    group(mma.a_words, [&](int64_t e) { input("r", Value(u.src(0), Cat(e))); });
    group(mma.b_words, [&](int64_t e) { input("r", Value(u.src(1), Cat(e))); });
    group(mma.results(), [&](int64_t e) {
      const std::string zero = is_float ? "0.0f" : "0";
      input(is_float ? "f" : "r", u.n_src() == 3 ? Value(u.src(2), Cat(e)) : zero);
    });
    Put(Type(u.dtype()), " ", results, ";");
    Put("asm(\"mma.sync.aligned.m", mma.m, "n", mma.n, "k", mma.k, ".row.col.",
        PtxMatrixType(i.sum), ".", PtxMatrixType(i.a), ".", PtxMatrixType(i.b), ".",
        PtxMatrixType(i.sum), " ", groups, ";\" : ", outputs, " : ", inputs, ");");
    return absl::OkStatus();
  }

  bool uses_shared_at_ = false;
};

}  // namespace

absl::StatusOr<std::string> RenderCudaC(const Request& request) {
  return CudaWriter(request).Run();
}

}  // namespace uopd::render
