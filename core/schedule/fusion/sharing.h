// SPDX-License-Identifier: MIT
// Finds the root that a new output (a STORE or realised node) may join. Part of fusion (fusion.h).
//
// A candidate may join a root if
//
//   - both have the same iteration space and device,
//   - every demand of the root for the candidate is for the element of the same iteration,
//   - no other root is on a path from the candidate to the root: it would have to run in the middle
//     of the kernel.
//
// The paths are those in the graph of roots, whose edges are values that one root computes and
// another uses. Edges between STOREs into one slot are not known yet; ordering (plan/plan.h) finds
// them and adds constraints.
#pragma once
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// Numbers of roots.
using Roots = absl::InlinedVector<uint32_t, 8>;

// A new output.
struct Candidate {
  // A demand for the candidate.
  struct Use {
    const Demand* demand;
    bool forwards;  // in the candidate's root, the demand can use the value without loading it
  };
  ir::Shape shape;
  ir::UOp value;
  int32_t storage = -1;  // of a STORE; -1: a new temporary
  int32_t device = 0;
  int32_t part = -1;  // Constraints::parts; -1: none
  absl::InlinedVector<Use, 4> demands;
  Roots followers;  // other roots that must run after the candidate
};

class Sharing {
 public:
  Sharing(Fusion& fusion, const FusionOptions& options) : f_(fusion), options_(options) {}

  // The root to join: a root that demands the candidate, else a root with a load or reduction in
  // common. -1: none.
  int32_t Find(const Candidate& c);
  // True if the candidate may join the root.
  bool Fits(uint32_t root, const Candidate& c);
  // The range of the root that u runs along, if u is a running sum (SCAN) over the root's iteration
  // space; else null.
  ir::UOp ScannedBy(ir::UOp u, const Root& root) const;
  // Records that the candidate has become an output of the root.
  void Add(uint32_t root, const Candidate& c);

 private:
  bool HasOtherProduct(uint32_t r, const Candidate& c) const;
  bool SameSpace(const Root& root, ir::Shape shape) const;
  // False if the value is a running sum along another loop than those that the root has already, or
  // along a loop that cannot be the innermost one.
  bool MayScan(const Root& root, ir::UOp value) const;
  // True if the root computes running sums of the candidate on a device that runs blocks. One
  // thread computes the running sums of a row, so what they are computed from has a kernel of its
  // own.
  bool IsScannedInBlocks(const Root& root, uint32_t r, const Candidate& c) const;
  bool IsWhole(const Demand& d, const Root& root, ir::Shape shape) const;
  bool Leads(Roots from, uint32_t to);
  Roots ConsumersOf(const Candidate& c, uint32_t except) const;
  uint64_t SpaceKey(const Candidate& c) const;

  Fusion& f_;
  const FusionOptions& options_;
  std::vector<uint32_t> seen_in_;  // by root: number of the last search (Leads) that visited it
  uint32_t searches_ = 0;
  absl::flat_hash_map<int32_t, Roots> by_part_;
  // Hash of iteration space and mark (describe.h) -> the last root with these.
  absl::flat_hash_map<uint64_t, uint32_t> by_mark_;
};

}  // namespace uopd::schedule
