// SPDX-License-Identifier: MIT
// Opts of one kernel while they are chosen: each is checked when it is added, the kernel is made
// once.
#pragma once
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/ir/node_index.h"

namespace uopd::codegen {

// The ranges that opts speak of: every RANGE of the kernel, by axis id. Their numbers never change.
std::vector<ir::UOp> Axes(const ir::UOpContext& ctx, ir::UOp sink);

// Not thread-safe; what it is made of outlives it.
class OptPlan {
 public:
  OptPlan(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

  // INVALID_ARGUMENT names the opt that does not fit those before it, or says that no value may
  // vary along two vectors (there is one lane dimension) or that copies would take too much staged
  // memory; then the plan is as it was.
  absl::Status Add(const Opt& opt);
  void Clear();
  const std::vector<Opt>& opts() const { return opts_; }

  // The kernel with every opt applied in order, ranges of one iteration replaced by 0 and axis ids
  // dense again. An amount that does not divide its axis pads it: loads and stores beyond the end
  // are gated and reductions see their identity there. RESOURCE_EXHAUSTED if it takes too much
  // staged memory without opts.
  absl::StatusOr<ir::UOp> Apply();

 private:
  // One axis: the loop that is left, and what was split off, in order.
  struct Axis {
    ir::UOp range;
    int64_t size = -1;  // of what is left; -1 when symbolic
    ir::UOp symbolic;   // its size as an expression
    bool is_reduce = false;
    bool is_vector = false;  // part of it
    bool padded = false;
    bool is_threads = false;  // what is left runs in threads of its own, one an iteration
    struct Part {
      ir::AxisType type;
      int64_t amount;
      bool outer;
    };
    std::vector<Part> parts;
  };
  absl::Status Split(const Opt& opt);
  absl::Status ThreadWhole(const Opt& opt);
  absl::Status SplitOff(Axis& axis, Axis::Part part, bool divides);
  bool InEveryEnd(ir::UOp range) const;
  void FindDependencies();
  bool Along(ir::UOp u, size_t axis) const {
    return (along_[at_[u] * words_ + axis / 64] >> (axis % 64) & 1) != 0;
  }
  absl::Status CheckVectors() const;
  std::string StagedTooMuch(ir::UOp made) const;  // empty: it is not

  // apply.cc: the graph.
  struct MadeAxis {
    ir::UOp value, maybe_valid;  // instead of the range; where it is not padding
    std::vector<ir::UOp> ranges;
  };
  std::vector<MadeAxis> MakeAxes();
  ir::UOp Make();

  ir::UOpContext& ctx_;
  const ir::UOp sink_;
  const Target& target_;
  std::vector<Axis> axes_, unsplit_;
  bool threaded_ = false, has_stages_ = false;
  std::vector<Opt> opts_;

  absl::flat_hash_map<uint32_t, size_t> number_;  // of axes, by range id
  std::vector<ir::UOp> order_;                    // the kernel's nodes, sources first
  ir::NodeIndex at_;                              // a node's place in it
  // The axes that each node's value varies with (REDUCE and STAGE close their own): words_ words of
  // bits a node, in order.
  size_t words_;
  std::vector<uint64_t> along_;
};

}  // namespace uopd::codegen
