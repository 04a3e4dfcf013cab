// SPDX-License-Identifier: MIT
// RowTerms: the terms of reductions over a row, computed for one tile of its keys.
//
// A row is what a maximum M runs over. A term of another reduction over the row may depend on M
// only as the rule of online.h says. Such a term is copied: its place along the row becomes a place
// in a tile, M becomes the maximum so far. The copy has a degree c: it is f * 2^(-c * M) for some
// f without M.
//
// Not thread-safe. The context and the tile must outlive it.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/codegen/attention/online/key_tile.h"
#include "core/codegen/attention/online/row_part.h"
#include "core/codegen/passes/open_ranges.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

class RowTerms {
 public:
  // `maximum`: the REDUCE M. `tile`: of its row.
  RowTerms(ir::UOpContext& ctx, ir::UOp sink, ir::UOp maximum, KeyTile& tile);

  // Sums are finished values in the terms of other sums.
  void AddSum(ir::UOp sum);
  // The value stands for M in copies.
  void SetMaximumSoFar(ir::UOp value) { so_far_ = value; }
  // The term of `reduce`, which closes one range over the row; nothing if the rule does not hold.
  // `fresh`: what replaces other ranges. The factors of the result are values of the kernel.
  std::optional<RowPart> Copy(ir::UOp reduce, const ir::Substitution& fresh) {
    rows_.clear();
    return CopyIn(reduce.src(0), reduce.closed()[0], fresh);
  }

  const OpenRanges& open() const { return open_; }
  // The STAGEs of which tiles were made.
  const absl::flat_hash_set<uint32_t>& stages() const { return stages_; }
  bool UsesMaximum(ir::UOp u) const { return uses_maximum_.contains(u.id()); }

 private:
  std::optional<RowPart> CopyIn(ir::UOp value, ir::UOp range, const ir::Substitution& fresh);
  std::optional<RowPart> LoadOf(ir::UOp load, ir::UOp range, const ir::Substitution& fresh);
  std::optional<RowPart> CopyNode(ir::UOp u, std::span<const RowPart> srcs, ir::UOp range);

  ir::UOpContext& ctx_;
  const ir::UOp maximum_;
  KeyTile& tile_;
  const OpenRanges open_;
  const std::vector<ir::UOp> order_;
  ir::UOp so_far_;
  absl::flat_hash_set<uint32_t> uses_maximum_, uses_sum_, stages_;
  // Of one call of Copy: STAGE -> the part of its elements, whose value is the STAGE of a tile.
  absl::flat_hash_map<uint32_t, RowPart> rows_;
};

}  // namespace uopd::codegen
