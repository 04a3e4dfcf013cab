// SPDX-License-Identifier: MIT
#include "core/base/target/matrix_instructions.h"

#include "core/base/text.h"

namespace uopd {
namespace {

using enum DtypeNumber;

struct Layouts {
  int k;
  const char *a, *b, *sum;
};

// 16 x 8 results; the elements of one 32-bit register follow each other along k.
constexpr Layouts kMma16 = {16, "k1 k2 r0 r1 r2 | k0 r3 k3", "k1 k2 c0 c1 c2 | k0 k3",
                            "c1 c2 r0 r1 r2 | c0 r3"};
constexpr Layouts kMma8 = {32, "k2 k3 r0 r1 r2 | k0 k1 r3 k4", "k2 k3 c0 c1 c2 | k0 k1 k4",
                           "c1 c2 r0 r1 r2 | c0 r3"};
constexpr Layouts kMma32 = {8, "k0 k1 r0 r1 r2 | r3 k2", "k0 k1 c0 c1 c2 | k2",
                            "c1 c2 r0 r1 r2 | c0 r3"};
// The same instruction. Which step of the sum has which number is free, as long as both operands
// agree: here a lane holds two neighbouring steps, as it holds two neighbouring columns of a
// result. So a result can be an operand (attention). The other numbering suits MATRIX_LOAD.
constexpr Layouts kMma32Pairs = {8, "k1 k2 r0 r1 r2 | r3 k0", "k1 k2 c0 c1 c2 | k0",
                                 "c1 c2 r0 r1 r2 | c0 r3"};
// 16 x 16 results of 64 lanes.
constexpr Layouts kMfma16 = {16, "r0 r1 r2 r3 k2 k3 | k0 k1", "c0 c1 c2 c3 k2 k3 | k0 k1",
                             "c0 c1 c2 c3 r2 r3 | r0 r1"};
constexpr Layouts kMfma8 = {32, "r0 r1 r2 r3 k3 k4 | k0 k1 k2", "c0 c1 c2 c3 k3 k4 | k0 k1 k2",
                            "c0 c1 c2 c3 r2 r3 | r0 r1"};
// 16 x 16 results of 32 lanes. On RDNA3 both halves of a warp hold the operands.
constexpr Layouts kRdna3 = {16, "r0 r1 r2 r3 - | k0 k1 k2 k3", "c0 c1 c2 c3 - | k0 k1 k2 k3",
                            "c0 c1 c2 c3 r0 | r1 r2 r3"};
constexpr Layouts kRdna4 = {16, "r0 r1 r2 r3 k3 | k0 k1 k2", "c0 c1 c2 c3 k3 | k0 k1 k2",
                            "c0 c1 c2 c3 r3 | r0 r1 r2"};

MatrixInstruction Make(const char* name, int n, const Layouts& l, DtypeNumber a, DtypeNumber sum) {
  MatrixInstruction out{name, 16, n, l.k, a, a, sum};
  out.a_place = Fragment::Of(l.a);
  out.b_place = Fragment::Of(l.b);
  out.sum_place = Fragment::Of(l.sum);
  return out;
}

}  // namespace

std::vector<MatrixInstruction> NvidiaMatrixInstructions(int capability) {
  std::vector<MatrixInstruction> out;
  if (capability < 80) return out;
  out.push_back(Make("mma_bf16", 8, kMma16, BF16, F32));
  out.push_back(Make("mma_f16", 8, kMma16, F16, F32));
  out.push_back(Make("mma_i8", 8, kMma8, I8, I32));
  out.push_back(Make("mma_u8", 8, kMma8, U8, I32));
  out.push_back(Make("mma_tf32", 8, kMma32, TF32, F32));
  out.push_back(Make("mma_tf32_pairs", 8, kMma32Pairs, TF32, F32));
  if (capability < 89) return out;
  out.push_back(Make("mma_e4m3", 8, kMma8, F8E4M3, F32));
  out.push_back(Make("mma_e5m2", 8, kMma8, F8E5M2, F32));
  return out;
}

std::vector<MatrixInstruction> WarpgroupMatrixInstructions() {
  struct Kind {
    std::string_view name;
    DtypeNumber element, sum;
    int k;
  };
  // None of fp8: its sums keep fewer bits than f32 has.
  constexpr Kind kKinds[] = {{"bf16", BF16, F32, 16},
                             {"f16", F16, F32, 16},
                             {"i8", I8, I32, 32},
                             {"u8", U8, I32, 32},
                             {"tf32", TF32, F32, 8}};
  // Each warp holds 16 rows. A lane's results lie in two rows, eight apart, two by two in each
  // eight columns.
  constexpr std::pair<int, const char*> kPlaces[] = {
      {256, "c1 c2 r0 r1 r2 r4 r5 | c0 r3 c3 c4 c5 c6 c7"},
      {128, "c1 c2 r0 r1 r2 r4 r5 | c0 r3 c3 c4 c5 c6"},
      {64, "c1 c2 r0 r1 r2 r4 r5 | c0 r3 c3 c4 c5"},
      {32, "c1 c2 r0 r1 r2 r4 r5 | c0 r3 c3 c4"}};
  std::vector<MatrixInstruction> out;
  for (const Kind& kind : kKinds) {
    for (const auto& [n, place] : kPlaces) {
      MatrixInstruction i{"wgmma_", 64, n, kind.k, kind.element, kind.element, kind.sum};
      Append(i.name, kind.name, "_n", n);
      i.sum_place = Fragment::Of(place);
      out.push_back(std::move(i));
    }
  }
  return out;
}

std::vector<MatrixInstruction> AmdMatrixInstructions(std::string_view processor) {
  if (processor == "gfx90a") {
    return {Make("mfma_bf16", 16, kMfma16, BF16, F32), Make("mfma_f16", 16, kMfma16, F16, F32),
            Make("mfma_i8", 16, kMfma16, I8, I32)};
  }
  if (processor == "gfx942") {
    return {Make("mfma_bf16", 16, kMfma16, BF16, F32), Make("mfma_f16", 16, kMfma16, F16, F32),
            Make("mfma_i8", 16, kMfma8, I8, I32)};
  }
  const bool rdna3 = processor == "gfx1100", rdna4 = processor == "gfx1201";
  if (!rdna3 && !rdna4) return {};
  const Layouts& l = rdna3 ? kRdna3 : kRdna4;
  return {Make("wmma_bf16", 16, l, BF16, F32), Make("wmma_f16", 16, l, F16, F32)};
}

}  // namespace uopd
