// SPDX-License-Identifier: MIT
// Graphs of the tests, in their wire form.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace uopd::e2e {

// slot 0 = slot 1 + slot 2, f32 of n elements.
std::string AddGraph(int64_t n, const std::string& device = "");
// slot 0 = slot 1 * factor, f32 of n elements: a different program for every factor.
std::string ScaleGraph(int64_t n, double factor);
// slot 0 = slot 1 backwards, f32 of n elements.
std::string FlipGraph(int64_t n);
// slot 0 [i] = sum over j of max(slot 1 [i], slot 2 [j]), f32 of n elements: n * n steps that
// nothing simplifies away.
std::string PairsGraph(int64_t n);

// The same for `count` sizes from n on, with slots of their own: as many kernels.
std::string ManyPairsGraph(int count, int64_t n);

// slot 0 [0] = sum of sin(i) over n integers, a few hundred bytes for any n: days for 2^40.
std::string LongGraph(int64_t n);

// slot 0 = a long chain of exponentials and logarithms of slot 1. The compiler of its kernel is
// busy for a while; more links take longer. Another number of links gives another graph.
std::string SlowToCompile(int number = 0, int links = 150);

// n values between -1 and 1. Each salt gives other values.
std::vector<float> Scattered(int64_t n, uint64_t salt);
std::string Bytes(const std::vector<float>& values);
std::vector<float> Floats(const std::string& bytes);

}  // namespace uopd::e2e
