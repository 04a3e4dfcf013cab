// SPDX-License-Identifier: MIT
#include "uopd/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace uopd::client {
namespace {

// From a to b along half a cosine, at `part` of the way.
double HalfCosine(double a, double b, double part) {
  const double left = (1 + std::cos(std::numbers::pi * part)) / 2;
  return a * left + b * (1 - left);  // exact at both ends
}

}  // namespace

LrSchedule ConstantLr(double lr) {
  return [=](int64_t) { return lr; };
}

LrSchedule StepLr(double lr, int64_t every, double gamma) {
  return [=](int64_t step) {
    const int64_t drops = step / every;
    return lr * std::pow(gamma, static_cast<double>(drops));
  };
}

LrSchedule ExponentialLr(double lr, double gamma) {
  return [=](int64_t step) { return lr * std::pow(gamma, static_cast<double>(step)); };
}

LrSchedule CosineLr(double lr, int64_t steps, double last) {
  return [=](int64_t step) {
    if (step >= steps) return last;
    return HalfCosine(lr, last, static_cast<double>(step) / static_cast<double>(steps));
  };
}

LrSchedule WarmupCosineLr(double lr, int64_t warmup, int64_t steps, double last) {
  return [=, rest = CosineLr(lr, steps - warmup, last)](int64_t step) {
    if (step >= warmup) return rest(step - warmup);
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  };
}

LrSchedule OneCycleLr(double max, int64_t steps, double rise, double start_factor,
                      double end_factor) {
  const double top = rise * static_cast<double>(steps) - 1, end = static_cast<double>(steps - 1);
  const double first = max / start_factor, last = first / end_factor;
  return [=](int64_t step) {
    const auto at = static_cast<double>(step);
    if (at >= end) return last;
    if (at <= top) return HalfCosine(first, max, at / top);
    return HalfCosine(max, last, (at - top) / (end - top));
  };
}

}  // namespace uopd::client
