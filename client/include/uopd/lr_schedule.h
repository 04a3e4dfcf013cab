// SPDX-License-Identifier: MIT
// Learning-rate schedules: functions from the number of a step (0, 1, ...) to a learning rate.
#pragma once
#include <functional>

#include "uopd/optim.h"

namespace uopd::client {

using LrSchedule = std::function<double(int64_t step)>;

LrSchedule ConstantLr(double lr);
// lr gamma^(step / every), rounded down. REQUIRES: every > 0.
LrSchedule StepLr(double lr, int64_t every, double gamma = 0.1);
// lr gamma^step.
LrSchedule ExponentialLr(double lr, double gamma);
// From lr to `last` along half a cosine in `steps` steps, and `last` after them. I. Loshchilov,
// F. Hutter, SGDR: stochastic gradient descent with warm restarts, 2016.
LrSchedule CosineLr(double lr, int64_t steps, double last = 0);
// lr (step + 1) / warmup in the first `warmup` steps, then CosineLr in the rest of `steps`.
LrSchedule WarmupCosineLr(double lr, int64_t warmup, int64_t steps, double last = 0);
// Half cosines from max / start_factor up to max, at the step rise * steps - 1, and down to
// max / start_factor / end_factor at the step steps - 1. Default values and positions are those of
// PyTorch's OneCycleLR. L. Smith, N. Topin, Super-convergence, 2017.
LrSchedule OneCycleLr(double max, int64_t steps, double rise = 0.3, double start_factor = 25,
                      double end_factor = 1e4);

// Sets the rate of an optimiser, which must outlive it. The constructor does not set the rate of
// step 0: call Start before the first step and Step after each step. Neither waits.
class LrScheduler {
 public:
  LrScheduler(Optimizer& optimizer, LrSchedule schedule)
      : optimizer_(&optimizer), schedule_(std::move(schedule)) {}
  absl::Status Start() { return optimizer_->SetLr(schedule_(step_)); }
  absl::Status Step() { return optimizer_->SetLr(schedule_(++step_)); }
  int64_t step() const { return step_; }

 private:
  Optimizer* optimizer_;
  LrSchedule schedule_;
  int64_t step_ = 0;
};

}  // namespace uopd::client
