// SPDX-License-Identifier: MIT
// Steps of optimisers: inputs R, T, then the parameters, their gradients and their states.
#include <cmath>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

struct OptimiserInput {
  Tensor rate, step;  // scalars
  size_t parameters = 0;
};

absl::StatusOr<OptimiserInput> TakeOptimiserInput(Call& c, size_t each) {
  const size_t n = (c.inputs() - 2) / each;
  if (n < 1 || c.inputs() != 2 + n * each) return c.Wrong("it has a wrong number of inputs");
  for (size_t i = 0; i < c.inputs(); ++i)
    if (!c.Has(i)) return c.Wrong(Cat("its input ", i, " is missing"));
  return OptimiserInput{c.X(0).Reshape({}), c.X(1).Reshape({}), n};
}

absl::Status RunMomentum(Call& c) {
  UOPD_ASSIGN(const OptimiserInput in, TakeOptimiserInput(c, 3));
  const double alpha = c.Float("alpha", 0), beta = c.Float("beta", 0),
               decay = c.Float("norm_coefficient", 0);
  const std::string_view mode = c.String("mode", "");
  if (mode != "standard" && mode != "nesterov") return c.Wrong("the attribute mode is not known");
  for (size_t i = 0, n = in.parameters; i < n; ++i) {
    const Tensor x = c.X(2 + i), g = x * decay + c.X(2 + n + i), v = c.X(2 + 2 * n + i);
    // The first step counts the gradient whole.
    const Tensor share = Where(in.step > 0, beta, 1.0);
    const Tensor next = v * alpha + g * share;
    UOPD_TRY(c.OutAs(2 + i, x - in.rate * (mode == "nesterov" ? g + next * alpha : next), i));
    UOPD_TRY(c.OutAs(2 + i, next, n + i));
  }
  return absl::OkStatus();
}

absl::Status RunAdagrad(Call& c) {
  UOPD_ASSIGN(const OptimiserInput in, TakeOptimiserInput(c, 3));
  const double slowing = c.Float("decay_factor", 0), epsilon = c.Float("epsilon", 1e-6),
               decay = c.Float("norm_coefficient", 0);
  const Tensor rate = in.rate / (in.step.Cast(in.rate.dtype()) * slowing + 1.0);
  for (size_t i = 0, n = in.parameters; i < n; ++i) {
    const Tensor x = c.X(2 + i), g = x * decay + c.X(2 + n + i);
    const Tensor h = c.X(2 + 2 * n + i) + g * g;
    UOPD_TRY(c.OutAs(2 + i, x - rate * g / (h.Sqrt() + epsilon), i));
    UOPD_TRY(c.OutAs(2 + i, h, n + i));
  }
  return absl::OkStatus();
}

absl::Status RunAdam(Call& c) {
  UOPD_ASSIGN(const OptimiserInput in, TakeOptimiserInput(c, 4));
  const double alpha = c.Float("alpha", 0.9), beta = c.Float("beta", 0.999),
               epsilon = c.Float("epsilon", 1e-6), decay = c.Float("norm_coefficient", 0),
               after = c.Float("norm_coefficient_post", 0);
  const Tensor t = in.step.Cast(in.rate.dtype());
  // alpha^t by exp: the bases are numbers within (0, 1].
  const auto power = [&](double base) { return (t * std::log(base)).Exp(); };
  const Tensor correction = (1.0 - power(beta)).Sqrt() / (1.0 - power(alpha));
  const Tensor rate = Where(in.step > 0, in.rate * correction, in.rate);
  for (size_t i = 0, n = in.parameters; i < n; ++i) {
    const Tensor x = c.X(2 + i), g = x * decay + c.X(2 + n + i);
    const Tensor v = c.X(2 + 2 * n + i) * alpha + g * (1 - alpha);
    const Tensor h = c.X(2 + 3 * n + i) * beta + g * g * (1 - beta);
    const Tensor next = x - rate * v / (h.Sqrt() + epsilon);
    UOPD_TRY(c.OutAs(2 + i, next * (1 - after), i));
    UOPD_TRY(c.OutAs(2 + i, v, n + i));
    UOPD_TRY(c.OutAs(2 + i, h, 2 * n + i));
  }
  return absl::OkStatus();
}

// d(y)/d(x) for the tensors that the attributes name. The inputs are the values of `xs` and `zs`
// at which it is taken; others than those that the names have here are not supported.
absl::Status RunGradient(Call& c) {
  const OnnxAttribute *xs = c.Find("xs"), *zs = c.Find("zs");
  Value* y = c.frame().Find(c.String("y", ""));
  if (xs == nullptr || xs->Strings() == nullptr || y == nullptr ||
      y->kind != Value::Kind::kTensor || y->strings != nullptr)
    return c.Wrong("the attribute xs or y is missing, or y is no tensor of numbers");
  std::vector<std::string_view> names = *xs->Strings();
  const size_t count = names.size();
  if (zs != nullptr && zs->Strings() != nullptr)
    names.insert(names.end(), zs->Strings()->begin(), zs->Strings()->end());
  if (names.size() != c.inputs()) return c.Wrong("there is not one input for each name");
  std::vector<Tensor> targets;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!c.Has(i) || c.frame().Find(names[i]) != &c.In(i))
      return c.Refuse("values other than those of xs and zs are not supported");
    if (i < count) targets.push_back(c.X(i));
  }
  UOPD_ASSIGN(const std::vector<Tensor> gradients,
              client::Gradient(c.walk().TensorOf(*y).Sum(), targets));
  for (size_t i = 0; i < count; ++i) UOPD_TRY(c.OutAs(i, gradients[i], i));
  return absl::OkStatus();
}

}  // namespace

OpRows TrainingOps() {
  constexpr std::string_view kDomain = "ai.onnx.preview.training";
  return {
      {"Momentum", 1, 5, kManyInputs, RunMomentum, kTensors, kDomain},
      {"Adagrad", 1, 5, kManyInputs, RunAdagrad, kTensors, kDomain},
      {"Gradient", 1, 1, kManyInputs, RunGradient, kTensors, kDomain},
      {"Adam", 1, 6, kManyInputs, RunAdam, kTensors, kDomain},
  };
}

}  // namespace uopd::client::onnx
