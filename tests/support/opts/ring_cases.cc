// SPDX-License-Identifier: MIT
#include "tests/support/opts/ring_cases.h"

namespace uopd::tests {

using ir::Dtype;
using ir::UOp;
using ir::UOpContext;

namespace {

// max(a b^T + bias, 0), rounded to the dtype of a and b: lanes exchange results before they store
// them.
UOp RoundedLayer(UOpContext& c, int64_t m, int64_t n, int64_t k, Dtype d) {
  KernelBuilder b(c);
  const UOp i = b.Loop(m), j = b.Loop(n), l = b.Reduced(k);
  const UOp x = b.Load(b.Buffer(1, d, m * k), b.At(i, k, l)),
            y = b.Load(b.Buffer(2, d, n * k), b.At(j, k, l)),
            bias = b.Load(b.Buffer(3, Dtype::F32, n), j);
  const UOp product = ir::Mul(c, ir::Cast(c, x, Dtype::F32), ir::Cast(c, y, Dtype::F32));
  const UOp sum = ir::Add(c, Sum(c, product, {l}), bias);
  const UOp value = ir::Alu(c, ir::Op::MAX, {sum, c.Float(Dtype::F32, 0)});
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, d, m * n), b.At(i, n, j), ir::Cast(c, value, d), {i, j})});
}

}  // namespace

std::vector<KernelCase> RingCases() {
  struct Shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    Dtype d;
  };
  std::vector<KernelCase> out;
  for (const Shape& s : {Shape{128, 32, 64, false, true, Dtype::BF16},
                         {128, 32, 64, true, false, Dtype::F16},
                         {64, 64, 128, false, false, Dtype::BF16},
                         {64, 32, 96, true, true, Dtype::BF16},
                         {64, 32, 128, false, true, Dtype::I8},
                         {72, 24, 56, false, true, Dtype::F16}}) {
    const Dtype sum = s.d == Dtype::I8 ? Dtype::I32 : Dtype::F32;
    out.push_back({"ring",
                   [=](UOpContext& c) {
                     return WideningMatmulKernel(c, s.m, s.n, s.k, s.transpose_a, s.transpose_b,
                                                 s.d, s.d, sum);
                   },
                   {{sum, s.m * s.n}, {s.d, s.m * s.k}, {s.d, s.k * s.n}},
                   s.d == Dtype::I8 ? 0 : 2e-6});
  }
  for (const Dtype d : {Dtype::BF16, Dtype::F16})
    out.push_back({"ring_of_a_layer",
                   [d](UOpContext& c) { return RoundedLayer(c, 64, 32, 128, d); },
                   {{d, 64 * 32}, {d, 64 * 128}, {d, 32 * 128}, {Dtype::F32, 32}},
                   2e-2});
  return out;
}

}  // namespace uopd::tests
