// SPDX-License-Identifier: MIT
#include "core/schedule/plan/store_sets.h"

#include <algorithm>
#include <bit>

namespace uopd::schedule {

StoreSets::StoreSets(uint32_t n) : nodes_(1) {
  while (Size(height_) < n) ++height_;
  full_.push_back(Leaf(~uint64_t{0}));
  for (int h = 1; h <= height_; ++h) full_.push_back(Inner(full_.back(), full_.back()));
}

StoreSets::Set StoreSets::Leaf(uint64_t word) {
  if (word == 0) return kEmpty;
  const Node node = {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  const auto [it, fresh] = leaves_.try_emplace(node, static_cast<Set>(nodes_.size()));
  if (fresh) nodes_.push_back(node);
  return it->second;
}

StoreSets::Set StoreSets::Inner(Set left, Set right) {
  if (left == kEmpty && right == kEmpty) return kEmpty;
  const auto [it, fresh] = inner_.try_emplace({left, right}, static_cast<Set>(nodes_.size()));
  if (fresh) nodes_.push_back({left, right});
  return it->second;
}

// The tree of this height over the numbers from `from` on that contains those in [begin, end).
StoreSets::Set StoreSets::RangeOf(uint64_t begin, uint64_t end, int height, uint64_t from) {
  const uint64_t to = from + Size(height);
  begin = std::max(begin, from);
  end = std::min(end, to);
  if (begin >= end) return kEmpty;
  if (begin == from && end == to) return full_[static_cast<size_t>(height)];
  if (height == 0) return Leaf((~uint64_t{0} >> (64 - (end - begin))) << (begin - from));
  const uint64_t middle = from + Size(height - 1);
  const Set left = RangeOf(begin, end, height - 1, from);
  return Inner(left, RangeOf(begin, end, height - 1, middle));
}

StoreSets::Set StoreSets::UnionOf(Set a, Set b, int height) {
  const Set full = full_[static_cast<size_t>(height)];
  if (a == b || b == kEmpty || a == full) return a;
  if (a == kEmpty || b == full) return b;
  if (height == 0) return Leaf(WordOf(a) | WordOf(b));
  const Node both = {std::min(a, b), std::max(a, b)};
  if (const auto it = unions_.find(both); it != unions_.end()) return it->second;
  const Set left = UnionOf(nodes_[a].left, nodes_[b].left, height - 1);
  const Set made = Inner(left, UnionOf(nodes_[a].right, nodes_[b].right, height - 1));
  unions_[both] = made;
  return made;
}

// The first number from `begin` on that the tree `a` does not contain; the end of the tree if there
// is none. The tree covers the numbers from `from` on.
uint64_t StoreSets::Missing(Set a, int height, uint64_t from, uint64_t begin) const {
  const uint64_t to = from + Size(height);
  if (begin >= to || a == full_[static_cast<size_t>(height)]) return to;
  begin = std::max(begin, from);
  if (a == kEmpty) return begin;
  if (height == 0) {
    const uint64_t left = ~WordOf(a) >> (begin - from);
    return left == 0 ? to : begin + static_cast<uint64_t>(std::countr_zero(left));
  }
  const uint64_t middle = from + Size(height - 1);
  const uint64_t found = Missing(nodes_[a].left, height - 1, from, begin);
  return found < middle ? found : Missing(nodes_[a].right, height - 1, middle, begin);
}

// One more than the last number below `end` that the tree `a` contains; `from` if there is none.
uint64_t StoreSets::Last(Set a, int height, uint64_t from, uint64_t end) const {
  if (end <= from || a == kEmpty) return from;
  end = std::min(end, from + Size(height));
  if (a == full_[static_cast<size_t>(height)]) return end;
  if (height == 0) {
    const uint64_t left = WordOf(a) & ~uint64_t{0} >> (64 - (end - from));
    return from + 64 - static_cast<uint64_t>(std::countl_zero(left));
  }
  const uint64_t middle = from + Size(height - 1);
  const uint64_t found = Last(nodes_[a].right, height - 1, middle, end);
  return found > middle ? found : Last(nodes_[a].left, height - 1, from, end);
}

uint32_t StoreSets::FirstMissing(Set a, uint32_t begin, uint32_t end) const {
  return static_cast<uint32_t>(std::min<uint64_t>(Missing(a, height_, 0, begin), end));
}

uint32_t StoreSets::EndOf(Set a, uint32_t begin, uint32_t end) const {
  return static_cast<uint32_t>(std::max<uint64_t>(Last(a, height_, 0, end), begin));
}

}  // namespace uopd::schedule
