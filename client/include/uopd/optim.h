// SPDX-License-Identifier: MIT
// Optimisers: SGD, LARS, Muon, Adam, AdamW and LAMB. Rules and default values are those of
// tinygrad.
//
// An optimiser holds handles of its parameters (leaves with RequireGrad) and is used by the thread
// of their Client. Step reads the gradients that Backward left, assigns new values, and submits
// them together with the tensors `also` in one request. It clears the gradients. State is f32, or
// the dtype of the parameter if that is wider.
//
// The learning rate is a tensor with one element on the daemon. So another rate is no other graph.
#pragma once
#include <memory>
#include <vector>

#include "uopd/client.h"

namespace uopd::client {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // FAILED_PRECONDITION if a parameter has no gradient. On failure parameters keep their values.
  // Once parameters and state are realised, which the first step does, it does not wait: an error
  // of the daemon comes later, as Submit (tensor.h) says.
  absl::Status Step(std::span<const Tensor> also = {});
  absl::Status Step(std::initializer_list<Tensor> also) {
    return Step(std::span(also.begin(), also.size()));
  }

  // The first half of Step: parameters and state take their new values, and gradients are cleared.
  // Nothing is sent. The caller must realise the returned tensors together.
  absl::StatusOr<std::vector<Tensor>> Update();

  const std::vector<Tensor>& parameters() const { return parameters_; }
  // Everything that a step reads and changes besides the parameters: moments, powers of beta, and
  // the learning rate as the last tensor (a group: that of each member). If parameters and state
  // are realised before the first step, the first step has the same graph as all others.
  const std::vector<Tensor>& state() const { return state_; }
  // From now on these are the state, in the order of state(): another optimiser's, which was made
  // for equal parameters, goes on here. INVALID_ARGUMENT if there are more or fewer, or one has
  // another shape, dtype or client; the state is the old one then. REQUIRES: it is no group, nor a
  // member of one that exists.
  absl::Status UseState(std::vector<Tensor> state);

  // The learning rate, of shape (1): f64 if a parameter is f64, otherwise f32. A group has no rate
  // of its own; lr() is that of its first member. Assign a value to it and submit it before the
  // next step, or call SetLr, which does both and does not wait. SetLr of a group sets all members.
  const Tensor& lr() const { return lr_; }
  virtual absl::Status SetLr(double value);

 protected:
  friend class OptimizerGroup;
  Optimizer() = default;  // for a group
  // INVALID_ARGUMENT, from Update and SetLr, if the rate is negative or NaN.
  Optimizer(Client& client, std::vector<Tensor> parameters, double lr);
  // Assigns to state_ and to the parameters.
  virtual void Apply(const std::vector<Tensor>& gradients) = 0;

  std::vector<Tensor> parameters_;
  std::vector<Tensor> state_;  // lr_ is pushed last, by the constructor of the derived class
  Tensor lr_;
  Dtype dtype_ = Dtype::F32;  // of lr_
  Client* client_ = nullptr;
  absl::Status error_;
};

// Parameter groups: several optimisers, each with its parameters and options, that step together in
// one request.
class OptimizerGroup : public Optimizer {
 public:
  // REQUIRES: `members` is not empty.
  explicit OptimizerGroup(std::vector<std::shared_ptr<Optimizer>> members);
  size_t size() const { return members_.size(); }
  Optimizer& operator[](size_t i) { return *members_[i]; }
  absl::Status SetLr(double value) override;

 private:
  void Apply(const std::vector<Tensor>& gradients) override;
  std::vector<std::shared_ptr<Optimizer>> members_;
};

// g += weight_decay p; v = momentum v + g; p -= lr (nesterov ? g + momentum v : v).
// Classic: v = momentum v + lr g, so that a change of the rate does not scale old velocities.
struct SgdOptions {
  double lr = 0.001, momentum = 0, weight_decay = 0;
  bool nesterov = false, classic = false;
};
std::unique_ptr<Optimizer> Sgd(Client& client, std::vector<Tensor> parameters,
                               SgdOptions options = {});

// SGD whose gradient is multiplied by trust |p| / (|g| + weight_decay |p|), separately for each
// parameter (1 if |p| or |g| is 0). Y. You et al., Large batch training of convolutional networks,
// 2017. trust = 0 is SGD.
struct LarsOptions {
  double lr = 0.001, momentum = 0.9, weight_decay = 1e-4;
  bool nesterov = false, classic = true;
  double trust = 0.001;
  // What Muon adds: the step, as a matrix, is made orthogonal if orthogonal_steps > 0; the weight
  // decay is decoupled.
  int64_t orthogonal_steps = 0;
  std::vector<double> coefficients = {};
  bool decoupled_decay = false;
};
std::unique_ptr<Optimizer> Lars(Client& client, std::vector<Tensor> parameters,
                                LarsOptions options = {});

// SGD whose step, as a matrix (rows: the first axis), is made orthogonal by fn::NewtonSchulz; the
// weight decay is decoupled. K. Jordan et al., Muon: an optimizer for hidden layers in neural
// networks, 2024.
struct MuonOptions {
  double lr = 0.001, momentum = 0.95, weight_decay = 0.1;
  int64_t steps = 5;
  std::vector<double> coefficients = {3.4445, -4.775, 2.0315};
  bool nesterov = true;
};
std::unique_ptr<Optimizer> Muon(Client& client, std::vector<Tensor> parameters,
                                MuonOptions options = {});

// D. Kingma, J. Ba, Adam: a method for stochastic optimization, 2014. With weight decay, which is
// decoupled: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2017.
struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // decoupled (AdamW); 0 is Adam
};
std::unique_ptr<Optimizer> Adam(Client& client, std::vector<Tensor> parameters,
                                AdamOptions options = {});
std::unique_ptr<Optimizer> AdamW(Client& client, std::vector<Tensor> parameters,
                                 AdamOptions options = {.weight_decay = 0.01});

// AdamW whose step u is multiplied by |p| / |u|, separately for each parameter (1 if either is 0).
// Y. You et al., Large batch optimization for deep learning: training BERT in 76 minutes, 2019.
struct LambOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
};
std::unique_ptr<Optimizer> Lamb(Client& client, std::vector<Tensor> parameters,
                                LambOptions options = {});

}  // namespace uopd::client
