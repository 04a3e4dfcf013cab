// SPDX-License-Identifier: MIT
// GraphMutator: seeded changes of graphs in their wire form that know what a graph is made of.
//
// Most results are refused by the verifier; a good part gets past it, since a change often keeps
// the arity and the dtypes. The same seed and inputs give the same graphs in every process.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "uopd/v1/graph.pb.h"

namespace uopd::fuzz {

class GraphMutator {
 public:
  // Changes do not make a graph longer than `max_nodes` unless it comes with more.
  explicit GraphMutator(uint64_t seed, int max_nodes = 1000)
      : max_nodes_(max_nodes), random_(seed) {}

  // `graph` with one to some changes; parts of `other` may come in. As bytes of a uopd.v1.Graph.
  std::string Mutate(const v1::Graph& graph, const v1::Graph& other);
  // A number below n. REQUIRES: n > 0.
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

 private:
  void ChangeNode(v1::Node& node);
  void ChangeSources(v1::Graph& graph, int at);
  void InsertNode(v1::Graph& graph);
  void RepeatPart(v1::Graph& graph);
  void Append(v1::Graph& graph, const v1::Graph& other);
  void ChangeBytes(std::string& bytes);
  int64_t Number();
  uint32_t SomeOp();
  uint32_t SomeDtype();

  const int max_nodes_;
  std::mt19937_64 random_;
};

}  // namespace uopd::fuzz
