// SPDX-License-Identifier: MIT
#include "tests/support/opts/opts_cases.h"

#include "tests/support/convolution_kernel.h"

namespace uopd::tests {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

std::vector<KernelCase> OptsCases() {
  std::vector<KernelCase> out;
  for (auto [m, n, k] : {std::array<int64_t, 3>{3, 17, 10}, {8, 32, 24}, {1, 10, 50}}) {
    for (int t = 0; t < 4; ++t) {
      out.push_back(
          {"matmul",
           [=](UOpContext& c) { return MatmulKernel(c, m, n, k, (t & 1) != 0, (t & 2) != 0); },
           {{Dtype::F32, m * n}, {Dtype::F32, m * k}, {Dtype::F32, k * n}}});
    }
  }
  out.push_back({"bf16_matmul",
                 [](UOpContext& c) { return MatmulKernel(c, 6, 16, 9, false, false, Dtype::BF16); },
                 {{Dtype::BF16, 96}, {Dtype::BF16, 54}, {Dtype::BF16, 144}},
                 2e-2});
  out.push_back({"i8_matmul",
                 [](UOpContext& c) { return MatmulKernel(c, 6, 16, 9, false, true, Dtype::I8); },
                 {{Dtype::I8, 96}, {Dtype::I8, 54}, {Dtype::I8, 144}},
                 0,
                 false});
  const std::pair<Dtype, Dtype> factors[] = {
      {Dtype::BF16, Dtype::BF16}, {Dtype::I8, Dtype::I8}, {Dtype::U8, Dtype::I8},
      {Dtype::I8, Dtype::U8},     {Dtype::U8, Dtype::U8}, {Dtype::BF16, Dtype::BF16}};
  for (int t = 0; const auto& [a, b] : factors) {
    const int64_t m = 6, n = 37, k = 18;
    const bool floats = a == Dtype::BF16, ta = t % 2 != 0, tb = t % 3 != 0;
    const Dtype sum = floats ? Dtype::F32 : Dtype::I32;
    out.push_back({"widening_matmul",
                   [=, a = a, b = b](UOpContext& c) {
                     return WideningMatmulKernel(c, m, n, k, ta, tb, a, b, sum);
                   },
                   {{sum, m * n}, {a, m * k}, {b, k * n}},
                   floats ? 2e-6 : 0,
                   floats});
    ++t;
  }
  // tf32 in memory, and f32 that is rounded to tf32. Every path rounds to the same values.
  for (const bool rounds : {false, true}) {
    const Dtype d = rounds ? Dtype::F32 : Dtype::TF32;
    out.push_back(
        {rounds ? "rounded_tf32_matmul" : "tf32_matmul",
         [=](UOpContext& c) {
           KernelBuilder b(c);
           const UOp i = b.Loop(20), j = b.Loop(36), l = b.Reduced(24);
           const auto factor = [&](UOp load) {
             return Cast(c, Cast(c, load, Dtype::TF32), Dtype::F32);
           };
           const UOp x = b.Load(b.Buffer(1, d, 480), b.At(i, 24, l)),
                     y = b.Load(b.Buffer(2, d, 864), rounds ? b.At(l, 36, j) : b.At(j, 24, l));
           return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 720), b.At(i, 36, j),
                                         Sum(c, Mul(c, factor(x), factor(y)), {l}), {i, j})});
         },
         {{Dtype::F32, 720}, {d, 480}, {d, 864}},
         2e-6,
         true});
  }
  // The same with one operand in words.
  for (const auto& [a, b] :
       {std::pair(Dtype::BF16, Dtype::BF16), {Dtype::I8, Dtype::I8}, {Dtype::I8, Dtype::U8}}) {
    const bool floats = a == Dtype::BF16;
    const Dtype sum = floats ? Dtype::F32 : Dtype::I32;
    out.push_back(
        {"words_matmul",
         [=, a = a, b = b](UOpContext& c) { return WordsMatmulKernel(c, 9, 35, 12, a, b, sum); },
         {{sum, 9 * 35}, {a, 9 * 12}, {b, 12 * 35}},
         floats ? 2e-6 : 0,
         floats});
  }
  // A convolution of values that are computed, then rounded to bf16: exp2(x (3, 40)) * w (5, 3, 3).
  out.push_back({"rounded_convolution",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp o = b.Loop(5), i = b.Loop(40), n = b.Reduced(3), k = b.Reduced(3);
                   const UOp at = Add(c, Add(c, i, k), c.Idx(-1));
                   const UOp gate = And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(40)));
                   const UOp in = b.Load(b.Buffer(1, Dtype::F32, 120), b.At(n, 40, at), gate),
                             w = b.Load(b.Buffer(2, Dtype::F32, 45), b.At(o, 9, b.At(n, 3, k)));
                   const auto rounded = [&](UOp x) {
                     return Cast(c, Cast(c, x, Dtype::BF16), Dtype::F32);
                   };
                   // exp2(0) is 1: what the padding of a reduced axis loads must not count.
                   const UOp power = ir::Alu(c, Op::EXP2, {in});
                   const UOp sum = Sum(c, Mul(c, rounded(power), rounded(w)), {n, k});
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 200), b.At(o, 40, i),
                                                 Add(c, sum, c.Float(Dtype::F32, 1)), {o, i})});
                 },
                 {{Dtype::F32, 200}, {Dtype::F32, 120}, {Dtype::F32, 45}},
                 1e-2});
  out.push_back({"softmax",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp x = b.Buffer(1, Dtype::F32, 7 * 20),
                             o = b.Buffer(0, Dtype::F32, 7 * 20);
                   const UOp i = b.Loop(7), j = b.Loop(20), k1 = b.Reduced(20), k2 = b.Reduced(20);
                   const UOp most = Sum(c, b.Load(x, b.At(i, 20, k1)), {k1}, Op::MAX);
                   auto e = [&](UOp at) {
                     return ir::Alu(c, Op::EXP2, {Sub(c, b.Load(x, b.At(i, 20, at)), most)});
                   };
                   const UOp sum = Sum(c, e(k2), {k2});
                   return b.Kernel({b.StoreLoops(o, b.At(i, 20, j),
                                                 ir::Alu(c, Op::FDIV, {e(j), sum}), {i, j})});
                 },
                 {{Dtype::F32, 140}, {Dtype::F32, 140}}});
  // A sum along rows changes a value in place: what only some threads store, no others may load.
  out.push_back(
      {"sum_in_place",
       [](UOpContext& c) {
         KernelBuilder b(c);
         const UOp i = b.Loop(24), k = b.Reduced(96);
         const UOp x = b.Buffer(0, Dtype::F32, 24);
         const UOp sum = Sum(c, b.Load(b.Buffer(1, Dtype::F32, 24 * 96), b.At(i, 96, k)), {k});
         return b.Kernel({b.StoreLoops(x, i, Add(c, Mul(c, b.Load(x, i), sum), sum), {i})});
       },
       {{Dtype::F32, 24}, {Dtype::F32, 24 * 96}},
       1e-5});
  out.push_back({"sum_and_max_of_one_range",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(5), k = b.Reduced(33);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 5 * 33), b.At(i, 33, k));
                   return b.Kernel(
                       {b.StoreLoops(b.Buffer(0, Dtype::F32, 5), i,
                                     Add(c, Sum(c, x, {k}), Sum(c, x, {k}, Op::MAX)), {i})});
                 },
                 {{Dtype::F32, 5}, {Dtype::F32, 165}}});
  out.push_back({"two_levels",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(3), k = b.Reduced(6), l = b.Reduced(10);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 180),
                                        Add(c, Mul(c, i, c.Idx(60)), b.At(k, 10, l)));
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 3), i,
                                                 Sum(c, Sum(c, x, {l}), {k}, Op::MAX), {i})});
                 },
                 {{Dtype::F32, 3}, {Dtype::F32, 180}}});
  out.push_back({"max_of_hard_values",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(9), k = b.Reduced(12);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 108), b.At(i, 12, k));
                   return b.Kernel(
                       {b.StoreLoops(b.Buffer(0, Dtype::F32, 9), i, Sum(c, x, {k}, Op::MAX), {i})});
                 },
                 {{Dtype::F32, 9}, {Dtype::F32, 108}},
                 0,
                 false});
  out.push_back({"padded_convolution",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(37), k = b.Reduced(5), at = Add(c, Add(c, i, k), c.Idx(-2));
                   const UOp gate = And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(37)));
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 37), at, gate),
                             w = b.Load(b.Buffer(2, Dtype::F32, 5), k);
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 37), i,
                                                 Sum(c, Mul(c, x, w), {k}), {i})});
                 },
                 {{Dtype::F32, 37}, {Dtype::F32, 37}, {Dtype::F32, 5}}});
  for (const int64_t stride : {1, 2}) {
    // x (3, 9, 9) * w (5, 3, 3, 3), padded by 1.
    const int64_t size = (9 + 2 - 3) / stride + 1;
    out.push_back({"convolution",
                   [=](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp o = b.Loop(5), i = b.Loop(size), j = b.Loop(size);
                     const UOp n = b.Reduced(3), k = b.Reduced(3), l = b.Reduced(3);
                     const UOp y = Add(c, b.At(i, stride, k), c.Idx(-1)),
                               x = Add(c, b.At(j, stride, l), c.Idx(-1));
                     const auto inside = [&](UOp at) {
                       return And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(9)));
                     };
                     const UOp in = b.Load(b.Buffer(1, Dtype::F32, 243), b.At(n, 81, b.At(y, 9, x)),
                                           And(c, inside(y), inside(x)));
                     const UOp w = b.Load(b.Buffer(2, Dtype::F32, 135),
                                          b.At(o, 27, b.At(n, 9, b.At(k, 3, l))));
                     return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 5 * size * size),
                                                   b.At(o, size * size, b.At(i, size, j)),
                                                   Sum(c, Mul(c, in, w), {n, k, l}), {o, i, j})});
                   },
                   {{Dtype::F32, 5 * size * size}, {Dtype::F32, 243}, {Dtype::F32, 135}}});
  }
  // Rows of seven pixels, images of 35, and channels enough for tiles.
  for (const Convolution& v :
       {Convolution{2, 4, 5, 7, 33, 3, 1}, Convolution{1, 33, 9, 13, 34, 1, 2, Dtype::BF16}})
    out.push_back({"narrow_convolution", [=](UOpContext& c) { return ConvolutionKernel(c, v); },
                   v.Buffers()});
  for (const int64_t stride : {1, 2}) {
    // x (5 stride, 7 stride, 20) * w (3, 3, 20) for each channel alone, padded by 1, channels
    // innermost.
    const int64_t in = 35 * stride * stride * 20;
    out.push_back({"depthwise_convolution",
                   [=](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp i = b.Loop(5), j = b.Loop(7), n = b.Loop(20), k = b.Reduced(3),
                               l = b.Reduced(3);
                     const UOp y = Add(c, b.At(i, stride, k), c.Idx(-1)),
                               x = Add(c, b.At(j, stride, l), c.Idx(-1));
                     const auto inside = [&](UOp at, int64_t size) {
                       return And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(size)));
                     };
                     const UOp value =
                         b.Load(b.Buffer(1, Dtype::F32, in), b.At(b.At(y, 7 * stride, x), 20, n),
                                And(c, inside(y, 5 * stride), inside(x, 7 * stride)));
                     const UOp w = b.Load(b.Buffer(2, Dtype::F32, 180), b.At(b.At(k, 3, l), 20, n));
                     return b.Kernel(
                         {b.StoreLoops(b.Buffer(0, Dtype::F32, 700), b.At(b.At(i, 7, j), 20, n),
                                       Sum(c, Mul(c, value, w), {k, l}), {i, j, n})});
                   },
                   {{Dtype::F32, 700}, {Dtype::F32, in}, {Dtype::F32, 180}}});
  }
  out.push_back({"transposition",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(21), j = b.Loop(18);
                   return b.Kernel({b.StoreLoops(
                       b.Buffer(0, Dtype::F32, 378), b.At(i, 18, j),
                       b.Load(b.Buffer(1, Dtype::F32, 378), b.At(j, 21, i)), {i, j})});
                 },
                 {{Dtype::F32, 378}, {Dtype::F32, 378}},
                 0,
                 false});
  out.push_back({"in_place",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(45), x = b.Buffer(0, Dtype::F32, 45);
                   return b.Kernel(
                       {b.StoreLoops(x, i,
                                     Add(c, Mul(c, b.Load(x, i), c.Float(Dtype::F32, 2)),
                                         b.Load(b.Buffer(1, Dtype::F32, 45), i)),
                                     {i})});
                 },
                 {{Dtype::F32, 45}, {Dtype::F32, 45}},
                 0,
                 false});
  out.push_back({"moved_elements",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(48), x = b.Buffer(1, Dtype::I32, 96);
                   const UOp back = Add(c, Mul(c, i, c.Idx(-1)), c.Idx(47)),
                             third = ir::Alu(c, Op::FLOORDIV, {i, c.Idx(3)});
                   const UOp rest = ir::Alu(c, Op::FLOORMOD, {i, c.Idx(7)});
                   const UOp sum = Add(c, Add(c, b.Load(x, back), b.Load(x, Mul(c, i, c.Idx(2)))),
                                       Add(c, b.Load(x, third), b.Load(x, rest)));
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 48), back,
                                                 Add(c, sum, Cast(c, i, Dtype::I32)), {i})});
                 },
                 {{Dtype::I32, 48}, {Dtype::I32, 96}},
                 0,
                 false});
  out.push_back({"rows_by_number",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(6), j = b.Loop(20);
                   const UOp row = Cast(c, b.Load(b.Buffer(1, Dtype::I32, 6), i), Dtype::Index);
                   const UOp gate = And(c, ir::Lt(c, c.Idx(-1), row), ir::Lt(c, row, c.Idx(4)));
                   return b.Kernel({b.StoreLoops(
                       b.Buffer(0, Dtype::F32, 120), b.At(i, 20, j),
                       b.Load(b.Buffer(2, Dtype::F32, 80), b.At(row, 20, j), gate), {i, j})});
                 },
                 {{Dtype::F32, 120}, {Dtype::I32, 6}, {Dtype::F32, 80}},
                 0});
  for (int64_t n : {0, 1, 10, 50}) {
    out.push_back({"symbolic",
                   [](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp v = ir::Variable(c, "n", 0, 50), i = b.Loop(v), k = b.Reduced(v);
                     const UOp x = b.Load(b.Buffer(1, Dtype::F32, 2500), b.At(i, 50, k));
                     return b.Kernel(
                         {b.StoreLoops(b.Buffer(0, Dtype::F32, 50), i,
                                       Add(c, Sum(c, x, {k}), Cast(c, v, Dtype::F32)), {i})});
                   },
                   {{Dtype::F32, 50}, {Dtype::F32, 2500}},
                   2e-6,
                   true,
                   {{"n", n}}});
  }
  // Along the rows and along the columns of a matrix; a maximum of hard values; of bools; in place.
  out.push_back({"running_sums_of_rows",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(6), j = b.Loop(43);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 258), b.At(i, 43, j));
                   const UOp sum = ir::ScanRanges(c, Op::ADD, x, {&j, 1});
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 258), b.At(i, 43, j),
                                                 Mul(c, sum, x), {i, j})});
                 },
                 {{Dtype::F32, 258}, {Dtype::F32, 258}}});
  for (const Dtype d : {Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::I8}) {
    const double tolerance = d == Dtype::F32 ? 2e-6 : d == Dtype::I8 ? 0 : 2e-2;
    out.push_back({"running_sums_of_columns",
                   [d](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp j = b.Loop(22), k = b.Reduced(3), i = b.Loop(17);
                     const UOp x = b.Load(b.Buffer(1, d, 22 * 17 * 3), b.At(b.At(i, 22, j), 3, k));
                     const UOp sum = ir::ScanRanges(c, Op::ADD, Sum(c, x, {k}), {&i, 1});
                     return b.Kernel(
                         {b.StoreLoops(b.Buffer(0, d, 374), b.At(i, 22, j), sum, {j, i})});
                   },
                   {{d, 374}, {d, 1122}},
                   tolerance});
  }
  out.push_back({"running_maximum_of_hard_values",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(3), j = b.Loop(64);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 192), b.At(i, 64, j));
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 192), b.At(i, 64, j),
                                                 ir::ScanRanges(c, Op::MAX, x, {&j, 1}), {i, j})});
                 },
                 {{Dtype::F32, 192}, {Dtype::F32, 192}},
                 0,
                 false});
  out.push_back({"running_products_in_place",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(29), x = b.Buffer(0, Dtype::I32, 29);
                   return b.Kernel({b.StoreLoops(
                       x, i, ir::ScanRanges(c, Op::MUL, b.Load(x, i), {&i, 1}), {i})});
                 },
                 {{Dtype::I32, 29}},
                 0,
                 false});
  // Running values are positions: of an element, of a row that is multiplied, of what is added up
  // again.
  for (const Dtype d : {Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U32, Dtype::I64}) {
    for (const Op op : {Op::ADD, Op::MUL, Op::MAX}) {
      const auto position = [op](UOpContext& c, UOp x, UOp range) {
        const UOp at = Cast(c, ir::ScanRanges(c, op, x, {&range, 1}), Dtype::Index);
        return ir::Alu(c, Op::FLOORMOD, {at, c.Idx(7)});
      };
      out.push_back({"running_positions",
                     [=](UOpContext& c) {
                       KernelBuilder b(c);
                       const UOp i = b.Loop(3), j = b.Loop(36);
                       const UOp x = b.Load(b.Buffer(1, d, 108), b.At(i, 36, j));
                       const UOp v = b.Load(b.Buffer(2, Dtype::F32, 7), position(c, x, j));
                       return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 108), b.At(i, 36, j),
                                                     Add(c, v, Cast(c, x, Dtype::F32)), {i, j})});
                     },
                     {{Dtype::F32, 108}, {d, 108}, {Dtype::F32, 7}},
                     0,
                     false});
      out.push_back(
          {"running_positions_of_rows",
           [=](UOpContext& c) {
             KernelBuilder b(c);
             const UOp i = b.Loop(40), k = b.Reduced(9);
             const UOp at = position(c, b.Load(b.Buffer(1, d, 40), i), i);
             const UOp v = b.Load(b.Buffer(2, Dtype::I32, 63), b.At(at, 9, k)),
                       w = b.Load(b.Buffer(3, Dtype::I32, 9), k);
             const UOp again =
                 ir::ScanRanges(c, Op::ADD, b.Load(b.Buffer(4, Dtype::I32, 7), at), {&i, 1});
             return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 40), i,
                                           Add(c, Sum(c, Mul(c, v, w), {k}), again), {i})});
           },
           {{Dtype::I32, 40}, {d, 40}, {Dtype::I32, 63}, {Dtype::I32, 9}, {Dtype::I32, 7}},
           0,
           false});
    }
  }
  // Along the only axis: THREAD cuts it into chunks.
  struct Scanned {
    const char* name;
    Op op;
    Dtype dtype;
    int64_t n;
    bool tame, in_place;
  };
  for (const Scanned& s : {Scanned{"running_sums", Op::ADD, Dtype::F32, 512, true, false},
                           Scanned{"running_sums", Op::ADD, Dtype::F32, 203, true, false},
                           Scanned{"running_sums", Op::ADD, Dtype::F64, 150, true, true},
                           Scanned{"running_sums", Op::ADD, Dtype::I32, 300, false, false},
                           Scanned{"running_products", Op::MUL, Dtype::U8, 77, false, true},
                           Scanned{"running_any", Op::ADD, Dtype::Bool, 131, true, false},
                           Scanned{"running_maximum", Op::MAX, Dtype::F32, 256, false, false},
                           Scanned{"running_maximum", Op::MAX, Dtype::I64, 99, false, true}}) {
    out.push_back({s.name,
                   [s](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp i = b.Loop(s.n), to = b.Buffer(0, s.dtype, s.n);
                     const UOp x = b.Load(s.in_place ? to : b.Buffer(1, s.dtype, s.n), i);
                     const UOp sum = ir::ScanRanges(c, s.op, x, {&i, 1});
                     return b.Kernel({b.StoreLoops(to, i, sum, {i})});
                   },
                   s.in_place
                       ? std::vector<std::pair<Dtype, int64_t>>{{s.dtype, s.n}}
                       : std::vector<std::pair<Dtype, int64_t>>{{s.dtype, s.n}, {s.dtype, s.n}},
                   ir::IsFloat(s.dtype) && s.op == Op::ADD ? 2e-6 : 0, s.tame});
  }
  // Rows and vectors of columns that whole tiles multiply (cpu/passes/wmma_tiles.h).
  using codegen::OptKind;
  const std::vector<codegen::Opt> tile = {
      {OptKind::kVector, 1, 16}, {OptKind::kTensorCore, 2, 0}, {OptKind::kUpcast, 0, 16}};
  for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::I8}) {
    const Dtype sum = d == Dtype::I8 ? Dtype::I32 : Dtype::F32;
    for (const bool transposed : {false, true}) {
      if (transposed && d == Dtype::I8) continue;
      out.push_back({"tiles",
                     [=](UOpContext& c) {
                       return WideningMatmulKernel(c, 19, 24, 128, transposed, false, d, d, sum);
                     },
                     {{sum, 19 * 24}, {d, 19 * 128}, {d, 128 * 24}},
                     d == Dtype::I8 ? 0 : 2e-6,
                     true,
                     {},
                     false,
                     tile});
    }
    out.push_back({"tiles_of_words",
                   [=](UOpContext& c) { return WordsMatmulKernel(c, 17, 48, 64, d, d, sum); },
                   {{sum, 17 * 48}, {d, 17 * 64}, {d, 64 * 48}},
                   d == Dtype::I8 ? 0 : 2e-6,
                   true,
                   {},
                   false,
                   tile});
  }
  // Rows that are f32 in memory, rounded, and 0 outside of it.
  for (const Dtype d : {Dtype::BF16, Dtype::F16}) {
    out.push_back({"tiles_of_rounded_rows",
                   [d](UOpContext& c) {
                     KernelBuilder b(c);
                     const UOp i = b.Loop(18), j = b.Loop(17), l = b.Reduced(64), t = b.Reduced(3);
                     const UOp row = Add(c, Add(c, i, t), c.Idx(-1));
                     const UOp gate = And(c, ir::Lt(c, c.Idx(-1), row), ir::Lt(c, row, c.Idx(18)));
                     const UOp x = b.Load(b.Buffer(1, Dtype::F32, 18 * 64), b.At(row, 64, l), gate);
                     const UOp y = b.Load(b.Buffer(2, d, 3 * 64 * 17), b.At(b.At(t, 64, l), 17, j));
                     const UOp product =
                         Mul(c, Cast(c, Cast(c, x, d), Dtype::F32), Cast(c, y, Dtype::F32));
                     return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 18 * 17), b.At(i, 17, j),
                                                   Sum(c, product, {l, t}), {i, j})});
                   },
                   {{Dtype::F32, 18 * 17}, {Dtype::F32, 18 * 64}, {d, 3 * 64 * 17}},
                   2e-6,
                   true,
                   {},
                   false,
                   tile});
  }
  out.push_back({"running_or",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp v = ir::Variable(c, "n", 0, 50), i = b.Loop(v);
                   const UOp x = b.Load(b.Buffer(1, Dtype::Bool, 50), i);
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::Bool, 50), i,
                                                 ir::ScanRanges(c, Op::ADD, x, {&i, 1}), {i})});
                 },
                 {{Dtype::Bool, 50}, {Dtype::Bool, 50}},
                 0,
                 true,
                 {{"n", 41}}});
  out.push_back(
      {"bools",
       [](UOpContext& c) {
         KernelBuilder b(c);
         const UOp i = b.Loop(21), k = b.Reduced(10);
         const UOp x = b.Load(b.Buffer(2, Dtype::Bool, 210), b.At(i, 10, k));
         return b.Kernel(
             {b.StoreLoops(b.Buffer(0, Dtype::Bool, 21), i, Sum(c, x, {k}), {i}),
              b.StoreLoops(b.Buffer(1, Dtype::Bool, 21), i, Sum(c, x, {k}, Op::MUL), {i})});
       },
       {{Dtype::Bool, 21}, {Dtype::Bool, 21}, {Dtype::Bool, 210}},
       0});
  out.push_back({"one_store_feeds_the_next",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(24), j = b.Loop(24), x = b.Buffer(0, Dtype::F32, 24);
                   const UOp first =
                       b.StoreLoops(x, i, b.Load(b.Buffer(1, Dtype::F32, 24), i), {i});
                   const UOp back = Add(c, Mul(c, j, c.Idx(-1)), c.Idx(23));
                   return b.Kernel(
                       {first, b.StoreLoops(b.Buffer(2, Dtype::F32, 24), j, b.Load(x, back), {j})});
                 },
                 {{Dtype::F32, 24}, {Dtype::F32, 24}, {Dtype::F32, 24}},
                 0});
  return out;
}

}  // namespace uopd::tests
