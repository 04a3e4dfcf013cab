// SPDX-License-Identifier: MIT
// Losses. Names, order of arguments and defaults are those of torch.nn.functional; operands
// broadcast. Losses are computed in f32 or wider and rounded once to the promoted dtype of the
// operands. All have gradients. Errors and promotion are as in tensor.h.
#pragma once
#include <optional>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// What becomes of the losses of all elements. kBatchMean: their sum divided by the length of the
// first axis.
enum class Reduction { kNone, kMean, kSum, kBatchMean };

Tensor MseLoss(Operand x, Operand target, Reduction reduction = Reduction::kMean);
Tensor L1Loss(Operand x, Operand target, Reduction reduction = Reduction::kMean);
// With d = |x - target|: d^2 / (2 beta) below beta, d - beta / 2 from there on.
Tensor SmoothL1Loss(Operand x, Operand target, double beta = 1,
                    Reduction reduction = Reduction::kMean);
// beta times SmoothL1Loss. P. J. Huber, Robust estimation of a location parameter, 1964.
Tensor HuberLoss(Operand x, Operand target, double delta = 1,
                 Reduction reduction = Reduction::kMean);

// x is a probability. Logarithms are at least -100. The weight may be empty.
Tensor BinaryCrossEntropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                          Reduction reduction = Reduction::kMean, Site site = Site::current());
// Of sigmoid(x), without overflow. pos_weight multiplies the loss of targets of 1. Both weights may
// be empty.
Tensor BinaryCrossEntropyWithLogits(const Tensor& x, const Tensor& target,
                                    const Tensor& weight = {}, const Tensor& pos_weight = {},
                                    Reduction reduction = Reduction::kMean,
                                    Site site = Site::current());

struct ClassLoss {
  Tensor weight = {};                          // of each class; or empty
  std::optional<int64_t> ignore_index = -100;  // labels that do not count
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0;  // CrossEntropy only
};
// x has log probabilities, with the classes along axis 1 (axis 0 of a vector). The target has
// integer labels, in the shape of x without that axis. The mean is weighted by the weights of the
// labels. Labels out of range do not count.
Tensor NllLoss(const Tensor& x, const Tensor& target, const ClassLoss& options = {},
               Site site = Site::current());
// NllLoss of the logarithm of softmax(x); or, if the target has the shape of x and is a float, with
// the probabilities of all classes as the target: then the mean is the sum divided by the number of
// rows.
Tensor CrossEntropy(const Tensor& x, const Tensor& target, const ClassLoss& options = {},
                    Site site = Site::current());

// target (log(target) - x) for log probabilities x. With log_target the target has log
// probabilities too.
Tensor KlDiv(Operand x, Operand target, Reduction reduction = Reduction::kMean,
             bool log_target = false);
// x where the target is 1, max(0, margin - x) where it is -1.
Tensor HingeEmbeddingLoss(Operand x, Operand target, double margin = 1,
                          Reduction reduction = Reduction::kMean);
// max(0, 1 - target x), for targets of -1 and 1.
Tensor HingeLoss(Operand x, Operand target, Reduction reduction = Reduction::kMean);
// a . b / (max(|a|, epsilon) max(|b|, epsilon)) along an axis.
Tensor CosineSimilarity(Operand a, Operand b, int64_t axis = 1, double epsilon = 1e-8);
// max(0, |anchor - positive| - |anchor - negative| + margin), with p-norms along the last axis. V.
// Balntas et al., Learning local feature descriptors with triplets, 2016.
Tensor TripletMarginLoss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                         double margin = 1, double p = 2, double epsilon = 1e-6,
                         Reduction reduction = Reduction::kMean, Site site = Site::current());
// max(0, margin - target (a - b)), for targets of -1 and 1.
Tensor MarginRankingLoss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                         Reduction reduction = Reduction::kMean, Site site = Site::current());
// exp(x) - target x with log_input, else x - target log(x + epsilon). `full` adds Stirling's
// approximation of log(target!) for targets above 1.
Tensor PoissonNllLoss(Operand x, Operand target, bool log_input = true, bool full = false,
                      double epsilon = 1e-8, Reduction reduction = Reduction::kMean);
// (log(v) + (x - target)^2 / v) / 2 with v = max(variance, epsilon), through which no gradient of
// the maximum flows. `full` adds log(2 pi) / 2.
Tensor GaussianNllLoss(const Tensor& x, const Tensor& target, const Tensor& variance,
                       bool full = false, double epsilon = 1e-6,
                       Reduction reduction = Reduction::kMean, Site site = Site::current());
// 1 - similarity where the target is 1, max(0, similarity - margin) where it is -1; vectors lie
// along axis 1.
Tensor CosineEmbeddingLoss(const Tensor& a, const Tensor& b, const Tensor& target,
                           double margin = 0, Reduction reduction = Reduction::kMean,
                           Site site = Site::current());

}  // namespace uopd::client::fn
