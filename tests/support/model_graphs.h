// SPDX-License-Identifier: MIT
// Tensor graphs with the structure of networks, built with core/ir/build.h alone. Tests check
// kernel counts, memory plans and compile times of the scheduler with them.
#pragma once
#include <string>
#include <vector>

#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::test {

// Builds expressions over tensors of one context. Input and Output assign PARAM slots in the order
// of the calls.
class GraphBuilder {
 public:
  explicit GraphBuilder(ir::UOpContext& ctx) : ctx_(ctx) {}

  ir::UOp Input(const ir::Dims& dims, ir::Dtype dtype = ir::Dtype::F32);
  // Output: a STORE into a new slot. Assign: the AFTER of a STORE into `param`. Finish: the SINK of
  // all STOREs so far.
  ir::UOp Output(ir::UOp value);
  ir::UOp Assign(ir::UOp param, ir::UOp v);
  ir::UOp Finish();

  ir::UOpContext& ctx() { return ctx_; }
  ir::Dims DimsOf(ir::UOp x) { return *ir::StaticDims(*ctx_.ShapeOf(x)); }
  ir::UOp Const(ir::UOp like, double v) { return ctx_.Const(like.dtype(), v); }
  ir::UOp Sum(ir::UOp x, const ir::Dims& axes);
  ir::UOp Max(ir::UOp x, const ir::Dims& axes);
  ir::UOp Mean(ir::UOp x, const ir::Dims& axes);
  ir::UOp Reshape(ir::UOp x, const ir::Dims& dims);
  ir::UOp Permute(ir::UOp x, const ir::Dims& order);
  ir::UOp Shrink(ir::UOp x, const ir::Dims& starts, const ir::Dims& dims);
  ir::UOp Pad(ir::UOp x, const ir::Dims& before, const ir::Dims& dims);
  ir::UOp Contiguous(ir::UOp x);
  ir::UOp Exp(ir::UOp x);
  ir::UOp Relu(ir::UOp x);
  ir::UOp Softmax(ir::UOp x);            // last axis
  ir::UOp LayerNorm(ir::UOp x);          // last axis
  ir::UOp MatMul(ir::UOp a, ir::UOp b);  // [.., m, k] x [.., k, n], equal or broadcasting batches
  ir::UOp Transpose(ir::UOp x);          // last two axes
  ir::UOp Conv2d(ir::UOp x, ir::UOp w, int64_t pad);  // NCHW, OIHW, stride 1
  // The same with one channel of input for each of output; w has shape [c, 1, kh, kw].
  ir::UOp DepthwiseConv2d(ir::UOp x, ir::UOp w, int64_t pad);
  ir::UOp BatchNorm(ir::UOp x);  // statistics over N, H, W
  ir::UOp Attention(ir::UOp q, ir::UOp k, ir::UOp v);

  // One pre-norm transformer block over x [t, d] with `heads` heads. Adds inputs for its weights.
  ir::UOp TransformerBlock(ir::UOp x, int64_t heads);

 private:
  ir::UOp Windows(ir::UOp x, size_t axis, int64_t k);
  ir::UOp Windows2d(ir::UOp x, ir::UOp w, int64_t pad);  // n, c, kh, h, kw, w

  ir::UOpContext& ctx_;
  int64_t slots_ = 0;
  std::vector<ir::UOp> roots_;
};

// `layers` transformer blocks over [t, d].
ir::UOp TransformerGraph(ir::UOpContext& ctx, int layers, int64_t t, int64_t d, int64_t heads);
// `layers` residual pairs of 3x3 convolutions with training statistics.
ir::UOp ResNetGraph(ir::UOpContext& ctx, int layers, int64_t batch, int64_t channels, int64_t size);
// Adam's update of `params` parameters from their gradients.
ir::UOp AdamGraph(ir::UOpContext& ctx, int params, int64_t rows, int64_t columns);

}  // namespace uopd::test
