// SPDX-License-Identifier: MIT
// Random numbers that are the same on every machine: the distributions of the standard library are
// not.
#pragma once
#include <cmath>
#include <cstdint>

namespace uopd::sim {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // in [0, 1)
  double Exponential(double mean) { return -mean * std::log1p(-Unit()); }
  uint64_t Below(uint64_t n) { return Next() % n; }  // n is far below 2^64

 private:
  uint64_t state_;
};

// Ranks 1 ... n with probability proportional to 1 / rank^s, in constant time and memory:
// rejection-inversion of Hörmann and Derflinger (ACM TOMACS 1996). REQUIRES: s > 0, n >= 1.
class Zipf {
 public:
  Zipf(uint64_t n, double s) : n_(static_cast<double>(n)), s_(s) {
    least_ = Integral(1.5) - 1;
    greatest_ = Integral(n_ + 0.5);
    shortcut_ = 2 - Inverse(Integral(2.5) - std::pow(2.0, -s_));
  }
  uint64_t Draw(Random& random) const {
    for (;;) {
      const double u = greatest_ + random.Unit() * (least_ - greatest_);
      const double x = Inverse(u);
      const double k = std::fmin(std::fmax(std::floor(x + 0.5), 1), n_);
      if (k - x <= shortcut_ || u >= Integral(k + 0.5) - std::pow(k, -s_))
        return static_cast<uint64_t>(k);
    }
  }

 private:
  // The integral of x^-s, and its inverse; near s = 1 it is the logarithm.
  double Integral(double x) const {
    const double t = (1 - s_) * std::log(x);
    return std::fabs(t) < 1e-8 ? std::log(x) : std::expm1(t) / (1 - s_);
  }
  double Inverse(double u) const {
    const double t = u * (1 - s_);
    return std::fabs(t) < 1e-8 ? std::exp(u) : std::exp(std::log1p(std::fmax(t, -1)) / (1 - s_));
  }
  const double n_, s_;
  double least_ = 0, greatest_ = 0, shortcut_ = 0;
};

}  // namespace uopd::sim
