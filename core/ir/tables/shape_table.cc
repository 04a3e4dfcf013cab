// SPDX-License-Identifier: MIT
#include "core/ir/tables/shape_table.h"

#include <algorithm>
#include <utility>

#include "core/base/table_key.h"

namespace uopd::ir {

// The slot of the shape, or the free one where it belongs.
size_t ShapeTable::Place(Shape dims, uint64_t key) const {
  KeyedHash hash(key, dims.size());
  for (UOp d : dims) hash.Add(d.id());
  const size_t mask = slots_.size() - 1;
  size_t i = hash.get() & mask;
  while (slots_[i] != nullptr &&
         !std::equal(dims.begin(), dims.end(), slots_[i]->begin(), slots_[i]->end()))
    i = (i + 1) & mask;
  return i;
}

const Shape* ShapeTable::Intern(Shape dims, Arena& arena, uint64_t key) {
  if (4 * (count_ + 1) > 3 * slots_.size()) {
    const auto old =
        std::exchange(slots_, std::vector<const Shape*>(std::max<size_t>(16, 2 * slots_.size())));
    for (const Shape* s : old) {
      if (s != nullptr) slots_[Place(*s, key)] = s;
    }
  }
  const Shape*& slot = slots_[Place(dims, key)];
  if (slot == nullptr) {
    UOp* copy = arena.AllocateArray<UOp>(dims.size());
    std::copy(dims.begin(), dims.end(), copy);
    slot = new (arena.Allocate(sizeof(Shape))) Shape(copy, dims.size());
    ++count_;
  }
  return slot;
}

}  // namespace uopd::ir
