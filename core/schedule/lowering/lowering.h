// SPDX-License-Identifier: MIT
// Lowering: makes the kernel graph of every root from the decisions of fusion (fusion.h). Runs
// before ordering (plan/plan.h).
//
// Run makes a raw graph over *placeholders*. A placeholder, BUFFER {k}, is one state of a buffer
// that the kernel reads or writes: outputs first, then reads in order of use. The raw graph is
// simplified to find out what the kernel really reads. Finish makes the final graph, with PARAMs,
// of kernels that are part of the schedule.
//
// Invariant: ranges and placeholders are numbered within the root, so that roots which compute the
// same have the same raw graph. Everything derived from a raw graph is memoised.
#pragma once
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/rewrite/rewriter.h"
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// A buffer in one state. Reads of different states are different placeholders, so that ordering
// sees every state that a kernel reads.
struct Placeholder {
  int32_t storage = -1;
  // The AFTER or STORE that makes the state of a slot. Null: the state before all STOREs, or a
  // temporary.
  ir::UOp after;
  bool operator==(const Placeholder&) const = default;
};

struct Kernel {
  uint32_t root = 0;
  ir::UOp raw;                            // SINK {kernel} over placeholders, not simplified
  std::vector<Placeholder> placeholders;  // by slot of the BUFFERs
  std::vector<uint32_t> reads;            // placeholders that are loaded, ascending
  // The kernel loads a buffer that it also stores, at another element than it stores. Its
  // iterations would overwrite what others still have to read.
  bool hazard = false;
  // The kernel loads an element that it stores in a loop of a reduction or a stage. In blocks, many
  // threads run such a loop, and one of them may store before another one has loaded.
  bool block_hazard = false;
};

// A kernel as codegen takes it.
struct FinishedKernel {
  std::string graph;                   // ir::Encode of the kernel SINK
  std::vector<uint32_t> placeholders;  // by slot of the PARAMs; outputs come first
};

// The INDEX nodes of elements of placeholders. Key: placeholder, dtype and shape of its storage,
// access, whether it is an output.
using Addresses =
    absl::flat_hash_map<std::tuple<uint32_t, ir::Dtype, const ir::Shape*, const Access*, bool>,
                        ir::UOp>;

class Lowering {
 public:
  Lowering(ir::UOpContext& ctx, rewrite::Rewriter& simplify, Accesses& accesses)
      : ctx_(ctx), simplify_(simplify), accesses_(accesses) {}

  // The kernels of all roots that are not copies and write at least one element. If interrupted,
  // some are missing.
  std::vector<Kernel> Run(Fusion& fusion);
  // The final graph: buffers are PARAMs, adjacent ranges are merged if no index becomes harder
  // (MergeRanges), ranges are numbered in nesting order. The result lives as long as this
  // object. INTERNAL if it does not verify.
  absl::StatusOr<const FinishedKernel*> Finish(const Kernel& kernel);

 private:
  // The simplified form of a raw graph, and its accesses to memory.
  struct Analysis {
    ir::UOp sink;
    std::vector<std::pair<uint32_t, ir::UOp>> loads;  // placeholder, index expression
    std::vector<std::pair<uint32_t, ir::UOp>> stores;
    std::vector<uint32_t> looped;  // placeholders that reductions and stages load
  };
  const Analysis& Analyse(ir::UOp raw);
  ir::UOp Numbered(ir::UOp sink, std::span<const uint32_t> param);
  // Drops what `made` does not use: from `placeholders`, and from the PARAMs of the placeholders,
  // `param`. False: it uses all.
  bool DropUnread(ir::UOp made, std::vector<uint32_t>& param,
                  std::vector<uint32_t>& placeholders) const;
  void FindReads(Kernel& kernel);

  ir::UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  Accesses& accesses_;
  Addresses addresses_;
  absl::flat_hash_map<uint32_t, Analysis> analyses_;  // by id of the raw graph
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, FinishedKernel> finished_;
};

// How a root obtains the value of a demand.
enum class Way : uint8_t {
  kLoaded,     // loaded from a buffer
  kStaged,     // loaded from a staged value
  kForwarded,  // taken from another output of the root
  kComputed,   // computed from its operands
};
Way WayOf(const Fusion& fusion, ir::UOp u, const Demand& d);

// A demand of a node, by number.
struct ValueRef {
  ir::UOp node;
  uint32_t demand;
};
// The demands that demand d of u is computed from; none if u is loaded from a buffer or has no
// sources.
absl::InlinedVector<ValueRef, 3> Operands(const Fusion& fusion, ir::UOp u, const Demand& d);

}  // namespace uopd::schedule
