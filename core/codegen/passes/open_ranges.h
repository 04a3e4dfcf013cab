// SPDX-License-Identifier: MIT
// OpenRanges: the ranges that each node of a kernel depends on, those that it closes left out.
//
// A value. Thread-safe.
#pragma once
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"

namespace uopd::codegen {

class OpenRanges {
 public:
  OpenRanges(const ir::UOpContext& ctx, ir::UOp sink);
  // Their ids, ascending.
  const std::vector<uint32_t>& Of(ir::UOp u) const { return along_.at(u.id()); }
  bool Varies(ir::UOp u, ir::UOp range) const;

 private:
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> along_;
};

}  // namespace uopd::codegen
