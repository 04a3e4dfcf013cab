// SPDX-License-Identifier: MIT
#include "core/render/amdgpu_warp.h"

#include "core/ir/mma.h"
#include "core/render/lines.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::UOp;

// The intrinsic of a matrix instruction, and the type of its operands.
struct AmdgpuMatrix {
  std::string_view instruction;  // MatrixInstruction::name
  int k;
  std::string_view processors;  // that have it
  std::string_view intrinsic, operand;
};
constexpr AmdgpuMatrix kAmdgpuMatrices[] = {
    {"mfma_bf16", 16, "gfx90a gfx942", "mfma.f32.16x16x16bf16.1k", "<4 x i16>"},
    {"mfma_f16", 16, "gfx90a gfx942", "mfma.f32.16x16x16f16", "<4 x half>"},
    {"mfma_i8", 16, "gfx90a", "mfma.i32.16x16x16i8", "i32"},
    {"mfma_i8", 32, "gfx942", "mfma.i32.16x16x32.i8", "i64"},
    {"wmma_bf16", 16, "gfx1100", "wmma.f32.16x16x16.bf16.v8f32.v16i16", "<16 x i16>"},
    {"wmma_f16", 16, "gfx1100", "wmma.f32.16x16x16.f16.v8f32.v16f16", "<16 x half>"},
    {"wmma_bf16", 16, "gfx1201", "wmma.f32.16x16x16.bf16.v8f32.v8i16", "<8 x i16>"},
    {"wmma_f16", 16, "gfx1201", "wmma.f32.16x16x16.f16.v8f32.v8f16", "<8 x half>"},
};

const AmdgpuMatrix* FindMatrix(const MatrixInstruction& instruction, std::string_view processor) {
  for (const AmdgpuMatrix& m : kAmdgpuMatrices) {
    if (m.instruction == instruction.name && m.k == instruction.k &&
        m.processors.find(processor) != std::string_view::npos)
      return &m;
  }
  return nullptr;
}

}  // namespace

// The word of the thread whose number is from / 4.
std::string AmdgpuWarp::Permuted(const std::string& word, const std::string& from) {
  const std::string out = text_.Temporary();
  text_.Put(out, " = ",
            text_.Call("@llvm.amdgcn.ds.bpermute", "i32", {{"i32", from}, {"i32", word}}));
  return out;
}

std::string AmdgpuWarp::Shuffled(Dtype dtype, const std::string& x, const std::string& from) {
  const std::string type(LlvmScalar(dtype));
  const auto convert = [&](std::string_view op, const std::string& value, const std::string& a,
                           const std::string& b) {
    const std::string out = text_.Temporary();
    text_.Put(out, " = ", op, " ", a, " ", value, " to ", b);
    return out;
  };
  if (ir::ByteSize(dtype) == 8) {
    const std::string words = convert("bitcast", x, type, "<2 x i32>");
    std::string joined = "poison";
    for (int i = 0; i < 2; ++i) {
      const std::string word = text_.Temporary(), next = text_.Temporary();
      text_.Put(word, " = extractelement <2 x i32> ", words, ", i64 ", i);
      const std::string moved = Permuted(word, from);
      text_.Put(next, " = insertelement <2 x i32> ", joined, ", i32 ", moved, ", i64 ", i);
      joined = next;
    }
    return convert("bitcast", joined, "<2 x i32>", type);
  }
  if (ir::ByteSize(dtype) == 4) {
    const std::string moved = Permuted(convert("bitcast", x, type, "i32"), from);
    return convert("bitcast", moved, "i32", type);
  }
  const std::string bits = dtype == Dtype::F16 ? "i16" : type;
  const std::string narrow = convert("bitcast", x, type, bits);
  const std::string moved = Permuted(convert("zext", narrow, bits, "i32"), from);
  return convert("bitcast", convert("trunc", moved, "i32", bits), bits, type);
}

void AmdgpuWarp::Shuffle(UOp u) {
  if (!has_lane_) {
    has_lane_ = true;
    Append(text_.registers, "  %lane.low = ",
           text_.Call("@llvm.amdgcn.mbcnt.lo", "i32", {{"i32", "-1"}, {"i32", "0"}}),
           "\n  %lane = ",
           text_.Call("@llvm.amdgcn.mbcnt.hi", "i32", {{"i32", "-1"}, {"i32", "%lane.low"}}), "\n");
  }
  const std::string other = text_.Temporary(), from = text_.Temporary();
  text_.Put(other, " = xor i32 %lane, ", u.arg().AsInt());
  text_.Put(from, " = shl i32 ", other, ", 2");
  const int64_t n = Lanes(ctx_, u);
  const std::string x = text_.Operand(u.src(0), n), type = text_.TypeOf(u);
  if (n == 0) {
    text_.names[u.id()] = Shuffled(u.dtype(), x, from);
    return;
  }
  std::string now = "poison";
  for (int64_t i = 0; i < n; ++i) {
    const std::string lane = text_.Temporary(), next = text_.Temporary();
    text_.Put(lane, " = extractelement ", type, " ", x, ", i64 ", i);
    const std::string moved = Shuffled(u.dtype(), lane, from);
    text_.Put(next, " = insertelement ", type, " ", now, ", ", LlvmScalar(u.dtype()), " ", moved,
              ", i64 ", i);
    now = next;
  }
  text_.names[u.id()] = now;
}

absl::Status AmdgpuWarp::Matrix(UOp u) {
  const ir::Mma mma = ir::Mma::Of(u);
  const AmdgpuMatrix* found = nullptr;
  for (const MatrixInstruction& i : target_.matrix_instructions) {
    if (i.of_warp() && i.m == mma.m && i.n == mma.n && i.k == mma.k &&
        static_cast<int64_t>(i.a) == mma.a && static_cast<int64_t>(i.b) == mma.b)
      found = FindMatrix(i, target_.arch);
  }
  if (found == nullptr)
    return absl::UnimplementedError("the target has no such matrix instruction");
  const std::string type(found->operand), sums = LlvmType(LlvmScalar(u.dtype()), mma.results());
  const auto operand = [&](UOp words, int64_t n) {
    const int64_t lanes = Lanes(ctx_, words) > 0 ? n : 0;
    const std::string x = text_.Operand(words, lanes), out = text_.Temporary();
    text_.Put(out, " = bitcast ", LlvmType("i32", lanes), " ", x, " to ", type);
    return out;
  };
  const std::string a = operand(u.src(0), mma.a_words), b = operand(u.src(1), mma.b_words);
  const std::string sum =
      u.n_src() == 3 ? text_.Operand(u.src(2), mma.results()) : std::string("zeroinitializer");
  const std::string name = Cat("@llvm.amdgcn.", found->intrinsic);
  // The last three numbers of MFMA rearrange blocks of matrices, which these shapes have not.
  const std::string call =
      found->intrinsic.starts_with("mfma")
          ? text_.Call(
                name, sums,
                {{type, a}, {type, b}, {sums, sum}, {"i32", "0"}, {"i32", "0"}, {"i32", "0"}})
          : text_.Call(name, sums, {{type, a}, {type, b}, {sums, sum}});
  text_.Put(text_.Fresh(u), " = ", call);
  return absl::OkStatus();
}

}  // namespace uopd::render
