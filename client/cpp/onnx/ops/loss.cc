// SPDX-License-Identifier: MIT
// Losses.
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// The loss of log probabilities (n, classes, ...) at targets (n, ...), with weights of the classes
// in input 2 if it is there.
absl::Status OutLikelihoodLoss(Call& c, const Tensor& log_probability) {
  const std::string_view reduction = c.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return c.Wrong("the attribute reduction is not known");
  const Tensor target = c.X(1).Cast(Dtype::I64);
  const bool ignores = c.Find("ignore_index") != nullptr;
  const Tensor ignored = target == c.Int("ignore_index", 0);
  const Tensor at = ignores ? Where(ignored, 0, target) : target;
  Tensor weight = fn::OnesLike(target, c.DtypeOf(0));
  if (c.Has(2)) weight = c.X(2).IndexSelect(0, at);
  if (ignores) weight = Where(ignored, fn::ZerosLike(weight), weight);
  const Tensor picked = log_probability.Gather(1, at.Unsqueeze(1)).Squeeze(1);
  const Tensor loss = (picked * weight).Neg();
  if (reduction == "none") return c.OutAs(0, loss);
  if (reduction == "sum") return c.OutAs(0, loss.Sum());
  return c.OutAs(0, loss.Sum() / weight.Sum());
}

absl::Status RunLikelihoodLoss(Call& c) {
  if (c.Rank(0) < 2 || c.Rank(1) != c.Rank(0) - 1)
    return c.Wrong("the targets have a wrong number of axes");
  return OutLikelihoodLoss(c, c.X(0));
}

absl::Status RunCrossEntropyLoss(Call& c) {
  if (c.Rank(0) < 2 || c.Rank(1) != c.Rank(0) - 1)
    return c.Wrong("the labels have a wrong number of axes");
  const Tensor log_probability = c.X(0).LogSoftmax(1);
  UOPD_TRY(c.OutAs(0, log_probability, 1));
  return OutLikelihoodLoss(c, log_probability);
}

}  // namespace

OpRows LossOps() {
  return {
      {"NegativeLogLikelihoodLoss", 12, 2, 3, RunLikelihoodLoss},
      {"SoftmaxCrossEntropyLoss", 12, 2, 3, RunCrossEntropyLoss},
  };
}

}  // namespace uopd::client::onnx
