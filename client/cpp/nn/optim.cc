// SPDX-License-Identifier: MIT
#include "uopd/optim.h"

#include "client/cpp/graph/graph_state.h"
#include "client/cpp/ops/common.h"
#include "core/base/text.h"
#include "uopd/linalg.h"

namespace uopd::client {
namespace {

Dtype StateDtype(Dtype d) { return ir::Bits(d) < 32 ? Dtype::F32 : d; }

Tensor ZerosLike(Client& client, const Tensor& t) {
  return client.Zeros(t.dims(), StateDtype(t.dtype())).ToLayoutOf(t);
}

Tensor OneNumber(Client& client, Dtype dtype, double value) {
  if (dtype == Dtype::F64) return client.FromHost(std::vector<double>{value}, {1});
  return client.FromHost(std::vector<float>{static_cast<float>(value)}, {1});
}

Tensor Length(const Tensor& t) { return t.Square().Sum().Sqrt(); }

// The factor where both lengths are above 0, otherwise 1.
Tensor TrustRatio(const Tensor& a, const Tensor& b, const Tensor& ratio) {
  return Where((a > Operand(0)) & (b > Operand(0)), ratio, 1.0);
}

// SGD, LARS and Muon. state_ has the velocities, if there is a momentum, and the learning rate.
class MomentumOptimizer : public Optimizer {
 public:
  MomentumOptimizer(Client& client, std::vector<Tensor> parameters, LarsOptions options)
      : Optimizer(client, std::move(parameters), options.lr), options_(std::move(options)) {
    if (options_.momentum != 0) {
      for (const Tensor& p : parameters_) state_.push_back(ZerosLike(client, p));
    }
    state_.push_back(lr_);
  }

 private:
  void Apply(const std::vector<Tensor>& gradients) override {
    const LarsOptions& o = options_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor& p = parameters_[i];
      const Tensor wide = p.Cast(StateDtype(p.dtype()));
      // A scalar, so that the step of a parameter of rank 0 has its shape.
      const Tensor lr = lr_.Cast(wide.dtype()).Reshape({});
      Tensor g = gradients[i].Cast(wide.dtype());
      Tensor rate = lr;
      if (o.trust != 0) {
        const Tensor a = Length(wide), b = Length(g);
        rate = lr * TrustRatio(a, b, a * o.trust / (b + a * o.weight_decay));
      }
      const bool decay = o.weight_decay != 0;
      if (decay && !o.decoupled_decay) g = g + wide * o.weight_decay;
      if (o.classic) g = g * rate;
      if (o.momentum != 0) {
        Tensor& velocity = state_[i];
        velocity.Assign(velocity * o.momentum + g);
        g = o.nesterov ? g + velocity * o.momentum : velocity;
      }
      if (o.orthogonal_steps > 0) g = Orthogonal(g);
      if (!o.classic) g = g * rate;
      if (decay && o.decoupled_decay) g = g + wide * (lr * o.weight_decay);
      p.Assign((wide - g).Cast(p.dtype()));
    }
  }

  Tensor Orthogonal(const Tensor& g) const {
    const int64_t rows = g.rank() == 0 ? 1 : g.dims()[0];
    if (g.size() == 0) return g;
    return fn::NewtonSchulz(g.Reshape({rows, g.size() / rows}), options_.orthogonal_steps,
                            options_.coefficients)
        .Reshape(g.dims());
  }

  const LarsOptions options_;
};

// Adam, AdamW and LAMB. state_ has beta1^t, beta2^t, the first and second moments of each
// parameter, and the learning rate.
class AdamOptimizer : public Optimizer {
 public:
  AdamOptimizer(Client& client, std::vector<Tensor> parameters, AdamOptions options, bool trust)
      : Optimizer(client, std::move(parameters), options.lr), options_(options), trust_(trust) {
    state_ = {client.Ones({1}, dtype_), client.Ones({1}, dtype_)};
    for (const Tensor& p : parameters_) {
      state_.push_back(ZerosLike(client, p));
      state_.push_back(ZerosLike(client, p));
    }
    state_.push_back(lr_);
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
      auto scalar = [&](const Tensor& t) { return t.Cast(wide.dtype()).Reshape({}); };
      m.Assign(m * b1 + g * (1 - b1));
      v.Assign(v * b2 + g * g * (1 - b2));
      Tensor step =
          (m / scalar(first_bias)) / ((v / scalar(second_bias)).Sqrt() + options_.epsilon);
      if (options_.weight_decay != 0) step = step + wide * options_.weight_decay;
      Tensor rate = scalar(lr_);
      if (trust_) {
        const Tensor a = Length(wide), b = Length(step);
        rate = rate * TrustRatio(a, b, a / b);
      }
      p.Assign((wide - step * rate).Cast(p.dtype()));
    }
  }

  const AdamOptions options_;
  const bool trust_;
};

// The values that Assign changes, so that a failed step can be undone.
struct Before {
  std::shared_ptr<TensorState> state;
  ir::UOp uop, replaces;
};

}  // namespace

Optimizer::Optimizer(Client& client, std::vector<Tensor> parameters, double lr)
    : parameters_(std::move(parameters)), client_(&client) {
  for (const Tensor& p : parameters_) {
    if (p.status().ok() && p.dtype() == Dtype::F64) dtype_ = Dtype::F64;
  }
  lr_ = OneNumber(client, dtype_, lr);
  if (!(lr >= 0)) error_ = absl::InvalidArgumentError(Cat("the learning rate is ", lr));
}

absl::Status Optimizer::UseState(std::vector<Tensor> state) {
  if (state.size() != state_.size()) {
    return absl::InvalidArgumentError(
        Cat(state.size(), " tensors of state for an optimiser that has ", state_.size()));
  }
  for (size_t i = 0; i < state.size(); ++i) {
    UOPD_TRY(state[i].status());
    if (state[i].state()->graph != state_[i].state()->graph)
      return absl::InvalidArgumentError(Cat("state ", i, " belongs to another client"));
    if (state[i].dims() != state_[i].dims() || state[i].dtype() != state_[i].dtype()) {
      return absl::InvalidArgumentError(
          Cat("state ", i, " is a tensor of ", ir::Name(state[i].dtype()), " ", ShapeText(state[i]),
              " instead of ", ir::Name(state_[i].dtype()), " ", ShapeText(state_[i])));
    }
  }
  state_ = std::move(state);
  lr_ = state_.back();
  return absl::OkStatus();
}

absl::Status Optimizer::SetLr(double value) {
  if (!(value >= 0)) return absl::InvalidArgumentError(Cat("the learning rate is ", value));
  lr_.Assign(OneNumber(*client_, dtype_, value));
  error_ = absl::OkStatus();
  return lr_.Submit();
}

OptimizerGroup::OptimizerGroup(std::vector<std::shared_ptr<Optimizer>> members)
    : members_(std::move(members)) {
  for (const auto& m : members_) {
    parameters_.insert(parameters_.end(), m->parameters_.begin(), m->parameters_.end());
    state_.insert(state_.end(), m->state_.begin(), m->state_.end());
    if (error_.ok()) error_ = m->error_;
  }
  lr_ = members_.front()->lr_;
}

absl::Status OptimizerGroup::SetLr(double value) {
  for (const auto& m : members_) UOPD_TRY(m->SetLr(value));
  error_ = absl::OkStatus();
  return absl::OkStatus();
}

void OptimizerGroup::Apply(const std::vector<Tensor>& gradients) {
  auto next = gradients.begin();
  for (const auto& m : members_) {
    const auto end = next + static_cast<ptrdiff_t>(m->parameters_.size());
    m->Apply(std::vector<Tensor>(next, end));
    next = end;
  }
}

absl::StatusOr<std::vector<Tensor>> Optimizer::Update() {
  UOPD_TRY(error_);
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
    }
  }
  Apply(gradients);
  // What Apply left as it was, such as the learning rate, need not be computed.
  for (const auto* list : {&parameters_, &state_}) {
    for (const Tensor& t : *list) {
      if (!t.is_realized()) changed.push_back(t);
    }
  }
  // Gradients are cleared before anything is computed. As long as they live, the old weights that
  // they are computed from cannot be overwritten.
  for (Tensor& p : parameters_) p.ClearGrad();
  return changed;
}

absl::Status Optimizer::Step(std::span<const Tensor> also) {
  std::vector<Before> before;
  bool in_place = true;  // what the step changes has memory; it is kept if the daemon fails
  for (const auto* list : {&parameters_, &state_}) {
    for (const Tensor& t : *list) {
      in_place &= t.is_realized();
      if (t.status().ok()) before.push_back({t.state(), t.state()->uop, t.state()->replaces});
    }
  }
  UOPD_ASSIGN(std::vector<Tensor> changed, Update());
  std::vector<Tensor> all(also.begin(), also.end());
  all.insert(all.end(), changed.begin(), changed.end());
  absl::Status status = in_place ? Submit(all) : Realize(all);
  if (status.ok()) return status;
  for (Before& b : before) {
    b.state->uop = b.uop;
    b.state->replaces = b.replaces;
    b.state->error = absl::OkStatus();
  }
  return status;
}

std::unique_ptr<Optimizer> Sgd(Client& client, std::vector<Tensor> parameters, SgdOptions o) {
  return Lars(client, std::move(parameters),
              {.lr = o.lr,
               .momentum = o.momentum,
               .weight_decay = o.weight_decay,
               .nesterov = o.nesterov,
               .classic = o.classic,
               .trust = 0});
}
std::unique_ptr<Optimizer> Lars(Client& client, std::vector<Tensor> parameters, LarsOptions o) {
  return std::make_unique<MomentumOptimizer>(client, std::move(parameters), std::move(o));
}
std::unique_ptr<Optimizer> Muon(Client& client, std::vector<Tensor> parameters, MuonOptions o) {
  return Lars(client, std::move(parameters),
              {.lr = o.lr,
               .momentum = o.momentum,
               .weight_decay = o.weight_decay,
               .nesterov = o.nesterov,
               .classic = false,
               .trust = 0,
               .orthogonal_steps = o.steps,
               .coefficients = std::move(o.coefficients),
               .decoupled_decay = true});
}
std::unique_ptr<Optimizer> Adam(Client& client, std::vector<Tensor> parameters, AdamOptions o) {
  return std::make_unique<AdamOptimizer>(client, std::move(parameters), o, false);
}
std::unique_ptr<Optimizer> AdamW(Client& client, std::vector<Tensor> parameters, AdamOptions o) {
  return Adam(client, std::move(parameters), o);
}
std::unique_ptr<Optimizer> Lamb(Client& client, std::vector<Tensor> parameters, LambOptions o) {
  return std::make_unique<AdamOptimizer>(client, std::move(parameters),
                                         AdamOptions{.lr = o.lr,
                                                     .beta1 = o.beta1,
                                                     .beta2 = o.beta2,
                                                     .epsilon = o.epsilon,
                                                     .weight_decay = o.weight_decay},
                                         true);
}

}  // namespace uopd::client
