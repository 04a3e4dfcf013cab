// SPDX-License-Identifier: MIT
#include "tests/support/model_graphs.h"

#include <cmath>
#include <numeric>

#include "core/ir/build.h"

namespace uopd::test {

using ir::Dims;
using ir::Op;
using ir::UOp;

UOp GraphBuilder::Input(const Dims& dims, ir::Dtype dtype) {
  return ir::Param(ctx_, slots_++, dtype, ir::ShapeArg(ctx_, dims));
}
UOp GraphBuilder::Output(UOp value) {
  roots_.push_back(ir::Store(
      ctx_, ir::Param(ctx_, slots_++, value.dtype(), ir::ShapeArg(ctx_, *ctx_.ShapeOf(value))),
      value));
  return roots_.back();
}
UOp GraphBuilder::Assign(UOp param, UOp v) {
  roots_.push_back(ir::Store(ctx_, param, v));
  return ir::After(ctx_, param, {roots_.back()});
}
UOp GraphBuilder::Finish() { return ir::Sink(ctx_, roots_); }

UOp GraphBuilder::Sum(UOp x, const Dims& axes) { return ir::ReduceAxes(ctx_, Op::ADD, x, axes); }
UOp GraphBuilder::Max(UOp x, const Dims& axes) { return ir::ReduceAxes(ctx_, Op::MAX, x, axes); }
UOp GraphBuilder::Mean(UOp x, const Dims& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= DimsOf(x)[static_cast<size_t>(a)];
  return ir::Mul(ctx_, Sum(x, axes), Const(x, 1.0 / static_cast<double>(n)));
}
UOp GraphBuilder::Reshape(UOp x, const Dims& dims) { return ir::Reshape(ctx_, x, dims); }
UOp GraphBuilder::Permute(UOp x, const Dims& order) { return ir::Permute(ctx_, x, order); }
UOp GraphBuilder::Shrink(UOp x, const Dims& starts, const Dims& dims) {
  return ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, starts), ir::ShapeArg(ctx_, dims));
}
UOp GraphBuilder::Pad(UOp x, const Dims& before, const Dims& dims) {
  return ir::Pad(ctx_, x, ir::ShapeArg(ctx_, before), ir::ShapeArg(ctx_, dims));
}
UOp GraphBuilder::Contiguous(UOp x) { return ctx_.Make(Op::CONTIGUOUS, x.dtype(), {x}); }
UOp GraphBuilder::Exp(UOp x) {
  return ir::Alu(ctx_, Op::EXP2, {ir::Mul(ctx_, x, Const(x, 1.4426950408889634))});
}
UOp GraphBuilder::Relu(UOp x) { return ir::Alu(ctx_, Op::MAX, {x, Const(x, 0)}); }

UOp GraphBuilder::Softmax(UOp x) {
  const Dims last = {static_cast<int64_t>(DimsOf(x).size()) - 1};
  const UOp e = Exp(ir::Sub(ctx_, x, Max(x, last)));
  return ir::Alu(ctx_, Op::FDIV, {e, Sum(e, last)});
}

UOp GraphBuilder::LayerNorm(UOp x) {
  const Dims last = {static_cast<int64_t>(DimsOf(x).size()) - 1};
  const UOp centred = ir::Sub(ctx_, x, Mean(x, last));
  const UOp variance = Mean(ir::Mul(ctx_, centred, centred), last);
  const UOp scale = ir::Alu(ctx_, Op::RECIPROCAL,
                            {ir::Alu(ctx_, Op::SQRT, {ir::Add(ctx_, variance, Const(x, 1e-5))})});
  return ir::Mul(ctx_, centred, scale);
}

UOp GraphBuilder::Transpose(UOp x) {
  Dims order(DimsOf(x).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return Permute(x, order);
}

UOp GraphBuilder::MatMul(UOp a, UOp b) {
  Dims x = DimsOf(a), y = DimsOf(Transpose(b));
  x.insert(x.end() - 1, 1);  // [.., m, 1, k]
  y.insert(y.end() - 2, 1);  // [.., 1, n, k]
  const UOp product = ir::Mul(ctx_, Reshape(a, x), Reshape(Transpose(b), y));
  Dims out = DimsOf(product);
  const UOp sum = Sum(product, {static_cast<int64_t>(out.size()) - 1});
  out.pop_back();
  return Reshape(sum, out);
}

// All windows of length k along `axis`: [.., i, ..] becomes [.., k, i - k + 1, ..]. The axis of
// length i is repeated k times and cut into pieces of length i + 1, which shifts each piece by one.
UOp GraphBuilder::Windows(UOp x, size_t axis, int64_t k) {
  const Dims dims = DimsOf(x);
  const int64_t i = dims[axis], repeats = (k * (i + 1) + i - 1) / i;
  Dims at = dims;
  at.insert(at.begin() + static_cast<int64_t>(axis), 1);
  UOp y = Reshape(x, at);
  at[axis] = repeats;
  y = ir::Expand(ctx_, y, at);
  Dims flat = dims;
  flat[axis] = repeats * i;
  y = Reshape(y, flat);
  const Dims zeros(dims.size(), 0);
  flat[axis] = k * (i + 1);
  y = Shrink(y, zeros, flat);
  at[axis] = k;
  at[axis + 1] = i + 1;
  y = Reshape(y, at);
  at[axis + 1] = i - k + 1;
  return Shrink(y, Dims(at.size(), 0), at);
}

UOp GraphBuilder::Windows2d(UOp x, UOp w, int64_t pad) {
  Dims in = DimsOf(x);
  const Dims k = DimsOf(w);
  if (pad > 0) {
    in[2] += 2 * pad;
    in[3] += 2 * pad;
    x = Pad(x, {0, 0, pad, pad}, in);
  }
  return Windows(Windows(x, 2, k[2]), 4, k[3]);
}

UOp GraphBuilder::Conv2d(UOp x, UOp w, int64_t pad) {
  const Dims k = DimsOf(w);
  x = Windows2d(x, w, pad);
  const Dims in = DimsOf(x);
  const int64_t h = in[3], v = in[5];
  x = Reshape(x, {in[0], 1, in[1], k[2], h, k[3], v});
  w = Reshape(w, {1, k[0], k[1], k[2], 1, k[3], 1});
  return Reshape(Sum(ir::Mul(ctx_, x, w), {2, 3, 5}), {in[0], k[0], h, v});
}

UOp GraphBuilder::DepthwiseConv2d(UOp x, UOp w, int64_t pad) {
  const Dims k = DimsOf(w);
  x = Windows2d(x, w, pad);
  const Dims in = DimsOf(x);
  return Reshape(Sum(ir::Mul(ctx_, x, Reshape(w, {1, k[0], k[2], 1, k[3], 1})), {2, 4}),
                 {in[0], in[1], in[3], in[5]});
}

UOp GraphBuilder::BatchNorm(UOp x) {
  const Dims over = {0, 2, 3};
  const UOp centred = ir::Sub(ctx_, x, Mean(x, over));
  const UOp variance = Mean(ir::Mul(ctx_, centred, centred), over);
  const int64_t c = DimsOf(x)[1];
  const UOp gain = Reshape(Input({c}), {1, c, 1, 1}), bias = Reshape(Input({c}), {1, c, 1, 1});
  const UOp scale = ir::Alu(ctx_, Op::RECIPROCAL,
                            {ir::Alu(ctx_, Op::SQRT, {ir::Add(ctx_, variance, Const(x, 1e-5))})});
  return ir::Add(ctx_, ir::Mul(ctx_, ir::Mul(ctx_, centred, scale), gain), bias);
}

UOp GraphBuilder::Attention(UOp q, UOp k, UOp v) {
  const double scale = 1 / std::sqrt(static_cast<double>(DimsOf(q).back()));
  return MatMul(Softmax(ir::Mul(ctx_, MatMul(q, Transpose(k)), Const(q, scale))), v);
}

UOp GraphBuilder::TransformerBlock(UOp x, int64_t heads) {
  const int64_t t = DimsOf(x)[0], d = DimsOf(x)[1], each = d / heads;
  const UOp h = LayerNorm(x);
  auto split = [&](UOp y) { return Permute(Reshape(y, {t, heads, each}), {1, 0, 2}); };
  const UOp q = split(MatMul(h, Input({d, d}))), k = split(MatMul(h, Input({d, d}))),
            v = split(MatMul(h, Input({d, d})));
  const UOp mixed = Reshape(Permute(Attention(q, k, v), {1, 0, 2}), {t, d});
  x = ir::Add(ctx_, x, MatMul(mixed, Input({d, d})));
  const UOp up = Relu(ir::Add(ctx_, MatMul(LayerNorm(x), Input({d, 4 * d})), Input({4 * d})));
  return ir::Add(ctx_, x, MatMul(up, Input({4 * d, d})));
}

UOp TransformerGraph(ir::UOpContext& ctx, int layers, int64_t t, int64_t d, int64_t heads) {
  GraphBuilder g(ctx);
  UOp x = g.Input({t, d});
  for (int i = 0; i < layers; ++i) x = g.TransformerBlock(x, heads);
  g.Output(g.LayerNorm(x));
  return g.Finish();
}

UOp ResNetGraph(ir::UOpContext& ctx, int layers, int64_t batch, int64_t channels, int64_t size) {
  GraphBuilder g(ctx);
  UOp x = g.Input({batch, channels, size, size});
  auto conv = [&](UOp y) { return g.Conv2d(y, g.Input({channels, channels, 3, 3}), 1); };
  for (int i = 0; i < layers; ++i) {
    const UOp y = g.Relu(g.BatchNorm(conv(x)));
    x = g.Relu(ir::Add(ctx, x, g.BatchNorm(conv(y))));
  }
  g.Output(x);
  return g.Finish();
}

UOp AdamGraph(ir::UOpContext& ctx, int params, int64_t rows, int64_t columns) {
  GraphBuilder g(ctx);
  auto blend = [&](UOp old, UOp fresh, double keep) {
    return ir::Add(ctx, ir::Mul(ctx, old, ctx.Const(old.dtype(), keep)),
                   ir::Mul(ctx, fresh, ctx.Const(old.dtype(), 1 - keep)));
  };
  for (int i = 0; i < params; ++i) {
    const UOp w = g.Input({rows, columns}), gradient = g.Input({rows, columns}),
              m = g.Input({rows, columns}), v = g.Input({rows, columns});
    const UOp m1 = g.Assign(m, blend(m, gradient, 0.9));
    const UOp v1 = g.Assign(v, blend(v, ir::Mul(ctx, gradient, gradient), 0.999));
    const UOp root = ir::Add(ctx, ir::Alu(ctx, Op::SQRT, {v1}), ctx.Const(w.dtype(), 1e-8));
    const UOp step = ir::Mul(ctx, ir::Alu(ctx, Op::FDIV, {m1, root}), ctx.Const(w.dtype(), 1e-3));
    g.Assign(w, ir::Sub(ctx, w, step));
  }
  return g.Finish();
}

}  // namespace uopd::test
