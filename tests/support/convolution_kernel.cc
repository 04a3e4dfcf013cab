// SPDX-License-Identifier: MIT
#include "tests/support/convolution_kernel.h"

#include "core/ir/build.h"
#include "tests/support/kernel_check.h"

namespace uopd::tests {

using ir::Dtype;
using ir::UOp;

std::vector<std::pair<Dtype, int64_t>> Convolution::Buffers() const {
  return {{Dtype::F32, images * results * pixels()},
          {dtype, images * channels * rows * columns},
          {dtype, results * channels * window * window}};
}

UOp ConvolutionKernel(ir::UOpContext& c, const Convolution& v) {
  KernelBuilder b(c);
  const UOp n = b.Loop(v.images), o = b.Loop(v.results), i = b.Loop(v.out(v.rows)),
            j = b.Loop(v.out(v.columns));
  const UOp ch = b.Reduced(v.channels), k = b.Reduced(v.window), l = b.Reduced(v.window);
  const auto from = [&](UOp at, UOp in) {
    return ir::Add(c, b.At(at, v.stride, in), c.Idx(-(v.window / 2)));
  };
  const auto inside = [&](UOp at, int64_t size) {
    return ir::And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(size)));
  };
  const auto widened = [&](UOp u) {
    return v.dtype == Dtype::F32 ? u : ir::Cast(c, u, Dtype::F32);
  };
  const auto buffers = v.Buffers();
  const auto buffer = [&](size_t slot) {
    return b.Buffer(static_cast<int64_t>(slot), buffers[slot].first, buffers[slot].second);
  };
  const UOp y = from(i, k), x = from(j, l);
  const int64_t image = v.rows * v.columns, windows = v.window * v.window;
  const UOp read =
      widened(b.Load(buffer(1), b.At(n, v.channels * image, b.At(ch, image, b.At(y, v.columns, x))),
                     ir::And(c, inside(y, v.rows), inside(x, v.columns))));
  const UOp pixel =
      v.selects ? ir::Where(c, inside(x, v.columns - 1), read, c.Float(Dtype::F32, 0)) : read;
  const UOp weight = widened(
      b.Load(buffer(2), b.At(o, v.channels * windows, b.At(ch, windows, b.At(k, v.window, l)))));
  const UOp reduced[] = {ch, k, l};
  const UOp sum = ir::ReduceRanges(c, ir::Op::ADD, ir::Mul(c, pixel, weight), reduced);
  const UOp at = b.At(n, v.results * v.pixels(), b.At(o, v.pixels(), b.At(i, v.out(v.columns), j)));
  return b.Kernel({b.StoreLoops(buffer(0), at, sum, {n, o, i, j})});
}

}  // namespace uopd::tests
