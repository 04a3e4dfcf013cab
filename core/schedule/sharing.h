// SPDX-License-Identifier: MIT
// Which root a STORE or realised node may join, and the graph of roots that says so.
//
// Joining needs the same iteration space and device, that what the root itself reads of the
// newcomer is the element of the same iteration, and that no other root lies on a way from the
// newcomer to the root: it would have to run in the middle of a kernel. The edges known here are
// those of values; what slots that are overwritten add shows when kernels are ordered.
#pragma once
#include "core/schedule/fusion.h"

namespace uopd::schedule {

// Numbers of roots.
using Roots = absl::InlinedVector<uint32_t, 8>;

// Something about to be written.
struct Candidate {
  struct Use {
    const Demand* demand;
    bool forwards;  // a demand of the same iteration can use the value instead of loading it
  };
  ir::Shape shape;
  ir::UOp value;
  int32_t storage = -1;  // of a STORE
  int32_t device = 0;
  int32_t part = -1;                    // Constraints::parts
  absl::InlinedVector<Use, 4> demands;  // who reads it
  Roots followers;                      // roots that come after it for other reasons
};

class Sharing {
 public:
  explicit Sharing(Fusion& fusion) : f_(fusion) {}

  // A root to join: one that demands it for its own element, else one with a load or reduction in
  // common. -1: none.
  int32_t Find(const Candidate& c);
  bool Fits(uint32_t root, const Candidate& c);
  // The candidate has become an output of the root.
  void Add(uint32_t root, const Candidate& c);

 private:
  bool SameSpace(const Root& root, ir::Shape shape) const;
  bool IsWhole(const Demand& d, const Root& root, ir::Shape shape) const;
  bool Leads(Roots from, uint32_t to);
  Roots ConsumersOf(const Candidate& c, uint32_t except) const;
  uint64_t SpaceKey(const Candidate& c) const;

  Fusion& f_;
  std::vector<uint32_t> seen_in_;  // by root: the search (of Leads) that has met it last
  uint32_t searches_ = 0;
  absl::flat_hash_map<int32_t, Roots> by_part_;
  absl::flat_hash_map<uint64_t, uint32_t> by_mark_;  // space and mark -> the latest such root
};

}  // namespace uopd::schedule
