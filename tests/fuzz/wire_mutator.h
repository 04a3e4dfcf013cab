// SPDX-License-Identifier: MIT
// Graphs on the wire as lists of nodes that can be changed: what hostile graphs are made of. The
// same seed gives the same changes.
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace uopd::testing {

struct WireNode {
  uint64_t op = 0, dtype = 0;
  std::vector<int64_t> src;  // positions; those outside of the graph are written as they are
  std::optional<int64_t> int_value;
  std::optional<uint64_t> float_bits;
  std::optional<std::vector<int64_t>> ints;
  std::optional<std::string> text;
};
using WireGraph = std::vector<WireNode>;

WireGraph ReadWire(std::string_view bytes);  // REQUIRES: bytes of ir::Encode
std::string WriteWire(const WireGraph& graph);

// One to eight changes: of ops, dtypes, sources, numbers, texts; nodes that are copied, dropped, or
// repeated in long chains; parts of another graph. At most `max_nodes` nodes afterwards.
WireGraph Mutate(WireGraph graph, const WireGraph& other, size_t max_nodes,
                 std::mt19937_64& random);

// Graphs that are worth changing: networks, random ones, every form of arg.
std::vector<WireGraph> SeedGraphs();

}  // namespace uopd::testing
