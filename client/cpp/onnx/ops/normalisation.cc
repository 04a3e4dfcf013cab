// SPDX-License-Identifier: MIT
// Normalisation.
#include <algorithm>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/functional.h"
#include "uopd/linalg.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// One number for each channel, as a tensor that broadcasts to one of `rank` axes.
Tensor ForChannels(const Tensor& t, int64_t rank) {
  Dims dims(static_cast<size_t>(std::max<int64_t>(rank - 1, 1)), 1);
  dims[0] = -1;
  return rank < 2 ? t : t.Reshape(dims);
}

Tensor WideOf(const Tensor& x) { return ir::IsSmallFloat(x.dtype()) ? x.Cast(Dtype::F32) : x; }

absl::Status RunBatchNormalization(Call& c) {
  const double epsilon = c.Float("epsilon", 1e-5), momentum = c.Float("momentum", 0.9);
  const bool training =
      c.opset() >= 14 ? c.Int("training_mode", 0) != 0 : c.opset() < 7 && c.Int("is_test", 0) == 0;
  if (c.opset() < 9 && c.Int("spatial", 1) == 0) return c.Refuse("spatial=0 is not supported");
  if (training && c.opset() < 14) return c.Refuse("training (is_test=0) is not supported");
  const Tensor x = WideOf(c.X(0));
  Tensor mean = WideOf(c.X(3)), var = WideOf(c.X(4));
  if (training) {
    Dims axes;
    for (int64_t i = 0; i < c.Rank(0); ++i)
      if (i != 1) axes.push_back(i);
    const auto [v, m] = x.VarMean(axes, false, 0);
    UOPD_TRY(c.OutAs(3, mean * momentum + m * (1 - momentum), 1));
    UOPD_TRY(c.OutAs(4, var * momentum + v * (1 - momentum), 2));
    mean = m;
    var = v;
  }
  const Tensor scale = WideOf(c.X(1)) * (var + epsilon).Rsqrt();
  const Tensor y = (x - ForChannels(mean, c.Rank(0))) * ForChannels(scale, c.Rank(0)) +
                   ForChannels(WideOf(c.X(2)), c.Rank(0));
  return c.OutAs(0, y);
}

absl::Status RunInstanceNormalization(Call& c) {
  return c.OutAs(0, fn::InstanceNorm(c.X(0), c.X(1), c.X(2), c.Float("epsilon", 1e-5)));
}

// The axes from the attribute `axis` on, of an op whose mean is computed in f32.
absl::StatusOr<Dims> LastAxes(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", -1), c.Rank(0)));
  if (c.Int("stash_type", 1) != 1) return c.Refuse("only the stash_type FLOAT is supported");
  Dims axes;
  for (int64_t i = axis; i < c.Rank(0); ++i) axes.push_back(i);
  return axes;
}

absl::Status RunLayerNormalization(Call& c) {
  UOPD_ASSIGN(const Dims axes, LastAxes(c));
  const double epsilon = c.Float("epsilon", 1e-5);
  const Tensor x = WideOf(c.X(0));
  const auto [var, mean] = x.VarMean(axes, true, 0);
  const Tensor factor = (var + epsilon).Rsqrt();
  // Rounded before the scale, as the op's definition has it.
  Tensor y = ((x - mean) * factor).Cast(c.DtypeOf(0)) * c.X(1);
  if (c.Has(2)) y = y + c.X(2);
  UOPD_TRY(c.OutAs(0, y));
  UOPD_TRY(c.Out(mean.Cast(Dtype::F32), 1));
  return c.Out(factor.Cast(Dtype::F32), 2);
}

absl::Status RunRmsNormalization(Call& c) {
  UOPD_ASSIGN(const Dims axes, LastAxes(c));
  const double epsilon = c.Float("epsilon", 1e-5);
  const Tensor x = WideOf(c.X(0));
  const Tensor y = x * (x.Square().Mean(axes, true) + epsilon).Rsqrt();
  return c.OutAs(0, y.Cast(c.DtypeOf(0)) * c.X(1));
}

absl::Status RunGroupNormalization(Call& c) {
  const int64_t groups = c.Int("num_groups", 0);
  if (c.Rank(0) < 2 || groups < 1 || c.Shape(0)[1] % groups != 0)
    return c.Wrong("num_groups does not divide the channels");
  if (c.Int("stash_type", 1) != 1) return c.Refuse("only the stash_type FLOAT is supported");
  Tensor scale = c.X(1), bias = c.X(2);
  const int64_t each = c.Shape(0)[1] / groups;
  if (c.opset() < 21) {  // one number for each group
    scale = fn::RepeatInterleave(scale, each, 0);
    bias = fn::RepeatInterleave(bias, each, 0);
  }
  return c.OutAs(0, fn::GroupNorm(c.X(0), groups, scale, bias, c.Float("epsilon", 1e-5)));
}

absl::Status RunLrn(Call& c) {
  const int64_t size = c.Int("size", 0);
  const double alpha = c.Float("alpha", 1e-4), beta = c.Float("beta", 0.75),
               bias = c.Float("bias", 1);
  if (size < 1 || c.Rank(0) < 2) return c.Wrong(Cat("the attribute size is ", size));
  UOPD_TRY(c.walk().Charge(size));
  const Tensor x = WideOf(c.X(0));
  Dims before(static_cast<size_t>(c.Rank(0)), 0), after = before;
  before[1] = (size - 1) / 2;
  after[1] = size / 2;
  const Tensor squares = x.Square().Pad(before, after);
  Tensor sum = squares.Narrow(1, 0, c.Shape(0)[1]);
  for (int64_t i = 1; i < size; ++i) sum = sum + squares.Narrow(1, i, c.Shape(0)[1]);
  return c.OutAs(0, x / (sum * (alpha / static_cast<double>(size)) + bias).Pow(beta));
}

absl::Status RunLpNormalization(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", -1), c.Rank(0)));
  const int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) return c.Wrong(Cat("the attribute p is ", p));
  const Tensor x = WideOf(c.X(0));
  const Tensor norm = fn::Norm(x, static_cast<double>(p), {axis}, true);
  return c.OutAs(0, Where(norm == 0.0, 0.0, x / norm));
}

absl::Status RunMeanVariance(Call& c) {
  UOPD_ASSIGN(const Dims axes, c.Axes(c.IntList("axes", {0, 2, 3}), c.Rank(0)));
  const Tensor x = WideOf(c.X(0));
  const auto [var, mean] = x.VarMean(axes, true, 0);
  return c.OutAs(0, (x - mean) / (var.Sqrt() + 1e-9));
}

// Without training it changes nothing. What training would give is random.
absl::Status RunDropout(Call& c) {
  double ratio = c.opset() < 12 ? c.Float("ratio", 0.5) : 0.5;
  bool training = c.opset() < 7 && c.Int("is_test", 0) == 0;
  if (c.opset() >= 12) {
    c.Int("seed", 0);
    if (c.Has(2)) {
      UOPD_ASSIGN(const int64_t t, c.OneInt(2));
      training = t != 0;
    }
    if (training && c.Has(1)) {
      UOPD_ASSIGN(ratio, c.OneFloat(1));
    }
  }
  if (training && ratio != 0) return c.Refuse("training is not supported");
  UOPD_TRY(c.Out(c.In(0)));
  if (!c.Wants(1)) return absl::OkStatus();
  return c.Out(fn::OnesLike(c.X(0), c.opset() < 10 ? c.DtypeOf(0) : Dtype::Bool), 1);
}

}  // namespace

OpRows NormalisationOps() {
  return {
      {"BatchNormalization", 6, 5, 5, RunBatchNormalization},
      {"InstanceNormalization", 6, 3, 3, RunInstanceNormalization},
      {"LayerNormalization", 17, 2, 3, RunLayerNormalization},
      {"RMSNormalization", 23, 2, 2, RunRmsNormalization},
      {"GroupNormalization", 18, 3, 3, RunGroupNormalization},
      {"LRN", 1, 1, 1, RunLrn},
      {"LpNormalization", 1, 1, 1, RunLpNormalization},
      {"MeanVarianceNormalization", 9, 1, 1, RunMeanVariance},
      {"Dropout", 6, 1, 3, RunDropout},
  };
}

}  // namespace uopd::client::onnx
