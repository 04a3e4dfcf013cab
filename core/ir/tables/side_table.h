// SPDX-License-Identifier: MIT
// A table of facts by node id. T{} means that the fact is not known.
//
// The table has an entry for every id, though few nodes may have the fact. So it grows by a
// quarter, which wastes less memory than doubling.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace uopd::ir {

template <class T>
class SideTable {
 public:
  T Get(uint32_t id) const { return id < values_.size() ? values_[id] : T{}; }
  void Set(uint32_t id, T value) {
    if (id >= values_.size()) Grow(size_t{id} + 1);
    values_[id] = value;
  }
  size_t bytes_reserved() const { return values_.capacity() * sizeof(T); }

 private:
  void Grow(size_t n) {
    const size_t held = values_.capacity();
    if (n > held) values_.reserve(std::max({n, held + held / 4, size_t{16}}));
    values_.resize(values_.capacity());  // all of it, or every new id would come here
  }

  std::vector<T> values_;
};

}  // namespace uopd::ir
