// SPDX-License-Identifier: MIT
// Optimisers: SGD with momentum, Adam and AdamW. Their state is tensors, so every step has the same
// graph.
//
// An optimiser holds handles of its parameters (leaves with RequireGrad) and is used by the thread
// of their Client. Step reads the gradients that Backward left, assigns new values, and realises
// them together with the tensors `also` in one request. It clears the gradients. State is f32, or
// the dtype of the parameter if that is wider.
#pragma once
#include <memory>
#include <vector>

#include "client/cpp/client.h"

namespace uopd::client {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // FAILED_PRECONDITION if a parameter has no gradient. On failure parameters keep their values.
  absl::Status Step(std::span<const Tensor> also = {});
  absl::Status Step(std::initializer_list<Tensor> also) {
    return Step(std::span(also.begin(), also.size()));
  }

  // The first half of Step: parameters and state take their new values, and gradients are cleared.
  // Nothing is sent. The caller must realise the returned tensors together.
  absl::StatusOr<std::vector<Tensor>> Update();

  const std::vector<Tensor>& parameters() const { return parameters_; }
  // Everything that a step changes besides the parameters. If parameters and state are realised
  // before the first step, the first step has the same graph as all others.
  const std::vector<Tensor>& state() const { return state_; }

 protected:
  explicit Optimizer(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {}
  // Assigns to state_ and to the parameters.
  virtual void Apply(const std::vector<Tensor>& gradients) = 0;

  std::vector<Tensor> parameters_;
  std::vector<Tensor> state_;
};

struct SgdOptions {
  double lr = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
std::unique_ptr<Optimizer> Sgd(Client& client, std::vector<Tensor> parameters,
                               SgdOptions options = {});

struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // decoupled (AdamW); 0 is Adam
};
std::unique_ptr<Optimizer> Adam(Client& client, std::vector<Tensor> parameters,
                                AdamOptions options = {});

}  // namespace uopd::client
