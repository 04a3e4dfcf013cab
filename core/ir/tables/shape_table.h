// SPDX-License-Identifier: MIT
// The interning table for shapes: equal shapes of a context are the same pointer.
#pragma once
#include <span>
#include <vector>

#include "core/base/arena.h"
#include "core/ir/uop.h"

namespace uopd::ir {

// Dimensions of a value, outermost first; each is an index-dtype UOp, CONST when concrete. Lives in
// the context.
using Shape = std::span<const UOp>;

class ShapeTable {
 public:
  // The one shape with these dimensions; a new one is copied into the arena. `key` is a TableKey,
  // the same in every call.
  const Shape* Intern(Shape dims, Arena& arena, uint64_t key);
  size_t bytes_reserved() const { return slots_.capacity() * sizeof(slots_[0]); }

 private:
  size_t Place(Shape dims, uint64_t key) const;

  std::vector<const Shape*> slots_;  // open addressing, size a power of two
  size_t count_ = 0;
};

}  // namespace uopd::ir
