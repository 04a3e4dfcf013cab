// SPDX-License-Identifier: MIT
// Graphs of the actors in wire form: small ones with a known answer, and ones that cost a daemon as
// much as a few bytes can. tests/e2e/graphs.h has more graphs with a known answer.
#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace uopd::chaos {

// slot 0 = slot 0 * factor + slot 1, f32 of n elements: a step that must happen exactly once.
std::string StepGraph(int64_t n, double factor);
// slot 0 (1 element) = the sum over 2^log2 elements of sin(index * scale): runs for as long as one
// likes.
std::string EndlessGraph(int log2, double scale);
// slot 0 = `links` sines with different offsets of slot 1 (16 elements), one in the other.
std::string SineChainGraph(int links, double offset);
// As many kernels as `kernels`. All kernels differ, also from those of a graph with another offset.
std::string ManyKernelsGraph(int kernels, double offset);
// 300 RESHAPE, PERMUTE and FLIP; 60,000 ADDs; 40,000 STOREs: what schedulers find hard.
std::string MovementChainGraph(int links);
std::string AddChainGraph(int links);
std::string StoreChainGraph(int links);
// A graph that reads or stores a BUFFER where none is allowed.
std::string BufferGraph(bool store);
// An output of 2^log2 elements.
std::string HugeGraph(int log2);

// A random hard graph. None of them runs long.
std::string HardGraph(std::mt19937_64& random);

}  // namespace uopd::chaos
