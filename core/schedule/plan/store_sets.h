// SPDX-License-Identifier: MIT
// Persistent sets of small numbers, which share their common subsets. Ordering (plan.h) keeps
// the STOREs of each state of the slots in such sets.
//
// A chain of n STOREs has n states; the i-th contains i STOREs. As lists, these would take n²
// numbers. Here a set is a binary tree whose leaves are words of 64 numbers. Subtrees are
// hash-consed: equal ones are the same node. A set that differs from another in a few numbers costs
// a few nodes, and the union of two subtrees is computed once.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace uopd::schedule {

class StoreSets {
 public:
  using Set = uint32_t;  // index into nodes_; equal sets are equal numbers
  static constexpr Set kEmpty = 0;

  // Sets of numbers in [0, n).
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
  // How many numbers a tree of this height covers.
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
  std::vector<Set> full_;  // by height: the tree that contains all its numbers
  absl::flat_hash_map<Node, Set> leaves_, inner_, unions_;
};

}  // namespace uopd::schedule
