// SPDX-License-Identifier: MIT
#include "client/cpp/optimizer.h"

#include "client/cpp/graph_state.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

Dtype StateDtype(Dtype d) { return ir::Bits(d) < 32 ? Dtype::F32 : d; }

Tensor ZerosLike(Client& client, const Tensor& t) {
  return client.Zeros(t.dims(), StateDtype(t.dtype())).ToLayoutOf(t);
}

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(Client& client, std::vector<Tensor> parameters, SgdOptions options)
      : Optimizer(std::move(parameters)), options_(options) {
    if (options_.momentum == 0) return;
    for (const Tensor& p : parameters_) state_.push_back(ZerosLike(client, p));
  }

 private:
  void Apply(const std::vector<Tensor>& gradients) override {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor& p = parameters_[i];
      const Tensor wide = p.Cast(StateDtype(p.dtype()));
      Tensor g = gradients[i].Cast(wide.dtype());
      if (options_.weight_decay != 0) g = g + wide * options_.weight_decay;
      if (options_.momentum != 0) {
        Tensor& velocity = state_[i];
        velocity.Assign(velocity * options_.momentum + g);
        g = options_.nesterov ? g + velocity * options_.momentum : velocity;
      }
      p.Assign((wide - g * options_.lr).Cast(p.dtype()));
    }
  }

  const SgdOptions options_;
};

// state_ has beta1^t, beta2^t, then the first and second moments of each parameter.
class AdamOptimizer : public Optimizer {
 public:
  AdamOptimizer(Client& client, std::vector<Tensor> parameters, AdamOptions options)
      : Optimizer(std::move(parameters)), options_(options) {
    state_ = {client.Ones({1}), client.Ones({1})};
    for (const Tensor& p : parameters_) {
      state_.push_back(ZerosLike(client, p));
      state_.push_back(ZerosLike(client, p));
    }
  }

 private:
  void Apply(const std::vector<Tensor>& gradients) override {
    const double b1 = options_.beta1, b2 = options_.beta2;
    state_[0].Assign(state_[0] * b1);
    state_[1].Assign(state_[1] * b2);
    const Tensor first_bias = 1.0 - state_[0], second_bias = 1.0 - state_[1];
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor &p = parameters_[i], &m = state_[2 + 2 * i], &v = state_[3 + 2 * i];
      const Tensor wide = p.Cast(StateDtype(p.dtype()));
      const Tensor g = gradients[i].Cast(wide.dtype());
      m.Assign(m * b1 + g * (1 - b1));
      v.Assign(v * b2 + g * g * (1 - b2));
      Tensor step = (m / first_bias) / ((v / second_bias).Sqrt() + options_.epsilon);
      if (options_.weight_decay != 0) step = step + wide * options_.weight_decay;
      p.Assign((wide - step * options_.lr).Cast(p.dtype()));
    }
  }

  const AdamOptions options_;
};

// The values that Assign changes, so that a failed step can be undone.
struct Before {
  std::shared_ptr<TensorState> state;
  ir::UOp uop, replaces;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> Optimizer::Update() {
  std::vector<Tensor> gradients, changed;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    UOPD_TRY(parameters_[i].status());
    gradients.push_back(parameters_[i].grad());
    if (gradients.back().state() == nullptr) {
      return absl::FailedPreconditionError(
          Cat("parameter ", i, " has no gradient: call Backward before Step"));
    }
    UOPD_TRY(gradients.back().status());
  }
  for (const auto* list : {&parameters_, &state_}) {
    for (const Tensor& t : *list) {
      UOPD_TRY(t.status());
      changed.push_back(t);
    }
  }
  Apply(gradients);
  // Gradients are cleared before anything is computed. As long as they live, the old weights that
  // they are computed from cannot be overwritten.
  for (Tensor& p : parameters_) p.ClearGrad();
  return changed;
}

absl::Status Optimizer::Step(std::span<const Tensor> also) {
  std::vector<Before> before;
  for (const auto* list : {&parameters_, &state_}) {
    for (const Tensor& t : *list) {
      if (t.status().ok()) before.push_back({t.state(), t.state()->uop, t.state()->replaces});
    }
  }
  UOPD_ASSIGN(std::vector<Tensor> changed, Update());
  std::vector<Tensor> all(also.begin(), also.end());
  all.insert(all.end(), changed.begin(), changed.end());
  absl::Status status = Realize(all);
  if (status.ok()) return status;
  for (Before& b : before) {
    b.state->uop = b.uop;
    b.state->replaces = b.replaces;
    b.state->error = absl::OkStatus();
  }
  return status;
}

std::unique_ptr<Optimizer> Sgd(Client& client, std::vector<Tensor> parameters, SgdOptions options) {
  return std::make_unique<SgdOptimizer>(client, std::move(parameters), options);
}
std::unique_ptr<Optimizer> Adam(Client& client, std::vector<Tensor> parameters,
                                AdamOptions options) {
  return std::make_unique<AdamOptimizer>(client, std::move(parameters), options);
}

}  // namespace uopd::client
