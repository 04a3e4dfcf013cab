// SPDX-License-Identifier: MIT
// The decisions of fusion.h turned into kernel graphs.
//
// A root's graph is first made over placeholders, BUFFER {k} for the k-th state of a buffer that it
// touches: outputs first, then reads in order of use. Ranges and placeholders are numbered within
// the root, so roots that compute the same are the same node, and what is made of it is remembered.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/rewrite/rewriter.h"
#include "core/schedule/fusion.h"

namespace uopd::schedule {

// A buffer in one state: reads of different states are different placeholders, so that a kernel
// cannot mix them unnoticed.
struct Placeholder {
  int32_t storage = -1;
  // What has happened to the slot: an AFTER or STORE; null: nothing yet, or it is a temporary.
  ir::UOp after;
  bool operator==(const Placeholder&) const = default;
};

struct Kernel {
  uint32_t root = 0;
  ir::UOp raw;                            // SINK {kernel} over placeholders, as it was made
  std::vector<Placeholder> placeholders;  // by BUFFER slot
  std::vector<uint32_t> reads;            // placeholders that are loaded, ascending
  // Reads of a stored buffer at another element than the one being stored: running the kernel in
  // place would be wrong.
  bool hazard = false;
};

// A kernel as codegen takes it.
struct FinishedKernel {
  std::string graph;                   // ir::Encode
  std::vector<uint32_t> placeholders;  // of PARAM k; outputs come first
};

// INDEX of an element of a placeholder, by the placeholder, the dtype and shape of its storage, the
// access, and whether it is for an output.
using Addresses =
    absl::flat_hash_map<std::tuple<uint32_t, ir::Dtype, const ir::Shape*, const Access*, bool>,
                        ir::UOp>;

class Lowering {
 public:
  Lowering(ir::UOpContext& ctx, rewrite::Rewriter& simplify, Accesses& accesses)
      : ctx_(ctx), simplify_(simplify), accesses_(accesses) {}

  // Kernels of every root that is no copy and not empty; some of them when interrupted.
  std::vector<Kernel> Run(Fusion& fusion);
  // Buffers numbered, ranges in nesting order, adjacent ranges merged where that makes indices no
  // harder. The result lives as long as this object. INTERNAL if it does not verify.
  absl::StatusOr<const FinishedKernel*> Finish(const Kernel& kernel);

 private:
  // What is known of a raw graph.
  struct Analysis {
    ir::UOp sink;                                     // simplified
    std::vector<std::pair<uint32_t, ir::UOp>> loads;  // placeholder, index expression
    std::vector<std::pair<uint32_t, ir::UOp>> stores;
  };
  const Analysis& Analyse(ir::UOp raw);
  void FindReads(Kernel& kernel);

  ir::UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  Accesses& accesses_;
  Addresses addresses_;
  absl::flat_hash_map<uint32_t, Analysis> analyses_;  // by id of the raw graph
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, FinishedKernel> finished_;
};

// How a root gets what it demands.
enum class Way : uint8_t {
  kLoaded,     // from memory
  kStaged,     // from memory of its own
  kForwarded,  // it is another of its outputs
  kComputed,   // from its operands
};
Way WayOf(const Fusion& fusion, ir::UOp u, const Demand& d);

// Demands whose values demand k of u is computed from; none where it is loaded or a constant.
struct ValueRef {
  ir::UOp node;
  uint32_t demand;
};
absl::InlinedVector<ValueRef, 3> Operands(const Fusion& fusion, ir::UOp u, const Demand& d);

}  // namespace uopd::schedule
