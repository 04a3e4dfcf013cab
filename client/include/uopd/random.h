// SPDX-License-Identifier: MIT
// Random tensors beyond those of Client. As there, the numbers come from Threefry on the daemon:
// the key is the client's seed, and the counters follow the order of calls. Errors are as in
// tensor.h.
#pragma once
#include <utility>

#include "uopd/client.h"
#include "uopd/tensor.h"

namespace uopd::client::fn {

// Floats in [0, 1), all of them multiples of the distance of floats just below 1: 2^-53 (f64),
// 2^-24 (f32), 2^-11 (f16) or 2^-8 (bf16). f32 has the numbers of Client::Rand.
Tensor Rand(Client& client, const Dims& dims, Dtype dtype, Site site = Site::current());
// Standard normal, by the method of Box and Muller; f16 and bf16 are rounded from f32.
Tensor Randn(Client& client, const Dims& dims, Dtype dtype, Site site = Site::current());
Tensor Normal(Client& client, const Dims& dims, double mean = 0, double std = 1,
              Dtype dtype = Dtype::F32, Site site = Site::current());
// Integers in [low, high), all equally likely (up to (high - low) / 2^64).
Tensor RandInt(Client& client, const Dims& dims, int64_t low, int64_t high,
               Dtype dtype = Dtype::I32, Site site = Site::current());
// The numbers 0 to n - 1 in random order: random keys are sorted, n log(n)^2 steps. n is at most
// 2^31.
Tensor RandPerm(Client& client, int64_t n, Dtype dtype = Dtype::I32, Site site = Site::current());
// 1 with the probability that the element of p has, else 0; in the dtype of p.
Tensor Bernoulli(const Tensor& p, Site site = Site::current());
// For each row of weights (..., k), which need not add up to 1: `count` positions (i32), drawn by
// weight. Without replacement, `count` is at most the number of weights other than 0; the keys
// log(u) / w of P. Efraimidis and P. Spirakis, Weighted random sampling with a reservoir, 2006, are
// sorted.
Tensor Multinomial(const Tensor& weights, int64_t count, bool replacement = false,
                   Site site = Site::current());
// Uniform in [-1, 1) / sqrt(number of elements).
Tensor ScaledUniform(Client& client, const Dims& dims, Dtype dtype = Dtype::F32,
                     Site site = Site::current());
// Normal with standard deviation sqrt(2 / ((1 + a^2) fan in)); weights of shape (out, in, ...).
Tensor KaimingNormal(Client& client, const Dims& dims, double a = 0, Dtype dtype = Dtype::F32,
                     Site site = Site::current());
// 64 bits for each pair of a counter and a key, both u64: two words of 32 bits each, by the 20
// rounds of J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.
Tensor Threefry(const Tensor& counter, Operand key);
// Of the shape, and if it is a float the dtype, of x.
Tensor RandLike(const Tensor& x, Site site = Site::current());
Tensor RandnLike(const Tensor& x, Site site = Site::current());

}  // namespace uopd::client::fn
