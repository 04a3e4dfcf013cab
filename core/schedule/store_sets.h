// SPDX-License-Identifier: MIT
// Sets of small numbers that share what they have in common: which STOREs each state of a graph's
// slots holds.
//
// A chain of n STOREs has n states, of which the i-th holds i of them: as lists they would take n²
// numbers. Here a set is a binary tree over words of 64 numbers, and equal subtrees are the same
// one, so a set that differs from another in a few numbers costs a few nodes, and the union of
// subtrees is found once.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace uopd::schedule {

class StoreSets {
 public:
  using Set = uint32_t;  // 0: the empty one
  static constexpr Set kEmpty = 0;

  // For numbers below n.
  explicit StoreSets(uint32_t n);

  Set Range(uint32_t begin, uint32_t end) { return RangeOf(begin, end, height_, 0); }
  Set Union(Set a, Set b) { return UnionOf(a, b, height_); }
  // The first number in [begin, end) that is not in the set; end if there is none.
  uint32_t FirstMissing(Set a, uint32_t begin, uint32_t end) const;
  // One more than the last number in [begin, end) that is in the set; begin if there is none.
  uint32_t EndOf(Set a, uint32_t begin, uint32_t end) const;

 private:
  struct Node {
    uint32_t left, right;  // halves of the word in leaves
    bool operator==(const Node&) const = default;
    template <class H>
    friend H AbslHashValue(H h, const Node& n) {
      return H::combine(std::move(h), n.left, n.right);
    }
  };
  // Numbers under a tree of this height.
  static uint64_t Size(int height) { return uint64_t{64} << height; }
  uint64_t WordOf(Set a) const { return nodes_[a].left | uint64_t{nodes_[a].right} << 32; }
  Set Leaf(uint64_t word);
  Set Inner(Set left, Set right);
  Set RangeOf(uint64_t begin, uint64_t end, int height, uint64_t from);
  Set UnionOf(Set a, Set b, int height);
  uint64_t Missing(Set a, int height, uint64_t from, uint64_t begin) const;
  uint64_t Last(Set a, int height, uint64_t from, uint64_t end) const;

  int height_ = 0;
  std::vector<Node> nodes_;
  std::vector<Set> full_;  // by height
  absl::flat_hash_map<Node, Set> leaves_, inner_, unions_;
};

}  // namespace uopd::schedule
