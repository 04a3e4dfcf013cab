// SPDX-License-Identifier: MIT
// RowTerms: the terms of reductions over a row, computed for one block of the row.
//
// A row is what a maximum M runs over. A term of another reduction over the row may depend on M only as
// the rule of online.h says. Such a term is copied: its place along the row becomes a place in a block, M
// becomes the maximum so far. The copy has a degree c: it is f * 2^(-c * M) for some f without M.
//
// Not thread-safe. The context must outlive it.
#pragma once
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

// The ranges that each node of a kernel depends on, those that it closes left out.
class OpenRanges {
 public:
  OpenRanges(const ir::UOpContext& ctx, ir::UOp sink);
  // Their ids, ascending.
  const std::vector<uint32_t>& Of(ir::UOp u) const { return along_.at(u.id()); }
  bool Varies(ir::UOp u, ir::UOp range) const;

 private:
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> along_;
};

// What is known of a copied value.
struct RowPart {
  enum class Kind : uint8_t {
    kFree,    // does not depend on the maximum
    kShift,   // f + amount * M
    kScaled,  // f * 2^(-amount * M), amount > 0
    kOuter    // computed from finished sums, the same for the whole row; `value` is not copied
  };
  // The value is multiplied or divided by a kOuter value after the reduction.
  struct Factor {
    ir::UOp value;
    bool divides = false;
  };
  Kind kind = Kind::kFree;
  double amount = 0;
  ir::UOp value;
  std::vector<Factor> factors;
};

class RowTerms {
 public:
  // `maximum`: the REDUCE M. `so_far`: stands for M in copies. `block`: the RANGE over blocks of n.
  RowTerms(ir::UOpContext& ctx, ir::UOp sink, ir::UOp maximum, ir::UOp block, int64_t n);

  // Sums are finished values in the terms of other sums.
  void AddSum(ir::UOp sum);
  void SetMaximumSoFar(ir::UOp value) { so_far_ = value; }
  // The term of `reduce`, which closes one range over the row; nothing if the rule does not hold.
  // `fresh`: what replaces other ranges. The factors of the result are values of the kernel.
  std::optional<RowPart> Copy(ir::UOp reduce, const ir::Substitution& fresh);

  const OpenRanges& open() const { return open_; }
  // Whether u is a REDUCE over the row, or a STAGE of the row's elements in their order.
  bool IsOverRow(ir::UOp u) const;
  // The place in a block that stands for a range over the row.
  ir::UOp InBlock(ir::UOp range);
  // Whether a place is one of the row; null: all are.
  ir::UOp MaybeValid(ir::UOp range);
  // The STAGEs of which blocks were made.
  const absl::flat_hash_set<uint32_t>& stages() const { return stages_; }
  bool UsesMaximum(ir::UOp u) const { return uses_maximum_.contains(u.id()); }

 private:
  struct Row {
    RowPart part;  // of its elements; the value is a STAGE
  };
  std::optional<RowPart> CopyIn(ir::UOp value, ir::UOp range, const ir::Substitution& fresh);
  std::optional<RowPart> LoadOf(ir::UOp load, ir::UOp range, const ir::Substitution& fresh);
  std::optional<RowPart> CopyNode(ir::UOp u, std::span<const RowPart> srcs, ir::UOp range);
  bool IsRowLoad(ir::UOp u, ir::UOp range) const;
  bool UsesSum(ir::UOp u) const;

  ir::UOpContext& ctx_;
  const ir::UOp maximum_, block_, size_;
  const int64_t n_;
  const OpenRanges open_;
  ir::UOp so_far_;
  std::vector<ir::UOp> sums_;
  std::vector<ir::UOp> order_;
  absl::flat_hash_set<uint32_t> uses_maximum_, uses_sum_, stages_;
  absl::flat_hash_map<uint32_t, ir::UOp> in_block_;
  absl::flat_hash_map<uint32_t, Row> rows_;  // of one call of Copy
};

}  // namespace uopd::codegen
