// SPDX-License-Identifier: MIT
// Buffers, addresses, loads and stores of a kernel as LLVM IR: arrays and accumulators on the
// stack, gates, prefetches and stores around the caches.
#pragma once
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/context.h"
#include "core/render/accumulators.h"
#include "core/render/llvm_text.h"

namespace uopd::render {

// The index of a load under a gate, in two parts: what stays while the gate stays, and what changes
// in loops inside of those that the gate depends on. Whoever renders such a load can choose between
// the buffer and zeros by the gate first, and add the second part after that: a compiler then moves
// the choice out of the inner loops.
//
// `steps` change in inner loops and are at least 0; `starts` do not. The index is the sum of all
// and of `offset`.
struct GatedIndex {
  std::vector<ir::UOp> starts, steps;
  int64_t offset = 0, most = 0;  // most: the largest sum of the steps
};

// Knows the loops that are open. Not thread-safe. The context must outlive it.
class GatedIndices {
 public:
  explicit GatedIndices(ir::UOpContext& ctx) : ctx_(ctx) {}

  void Open(ir::UOp range) { open_.push_back(range); }
  void Close() { open_.pop_back(); }

  // The parts of an INDEX that has a gate. The steps together stay below `limit`; larger ones are
  // among the starts.
  GatedIndex PartsOf(ir::UOp index, int64_t limit);

 private:
  // The number of the innermost open loop that the value depends on; 0: none.
  int64_t DepthOf(ir::UOp u);

  ir::UOpContext& ctx_;
  std::vector<ir::UOp> open_;                      // outermost first
  absl::flat_hash_map<uint32_t, int64_t> depths_;  // by node id
};

// Not thread-safe. The context and the text must outlive it.
class LlvmMemory {
 public:
  LlvmMemory(ir::UOpContext& ctx, LlvmText& text) : ctx_(ctx), text_(text) {}

  // Finds the BUFFERs that need memory. Before everything else.
  void FindArrays(ir::UOp linear) { accumulators_.Find(ctx_, linear); }

  void OpenLoop(ir::UOp range);
  void CloseLoop();

  absl::Status Buffer(ir::UOp u);
  absl::Status Index(ir::UOp u);
  absl::Status Load(ir::UOp u);
  absl::Status Store(ir::UOp u);

  bool streams() const { return streams_; }  // whether a store so far went around the caches
  bool waits() const { return waits_; }  // whether a thread waits for another one (shared arrays)
  int64_t zero_bytes() const { return zero_bytes_; }  // of @zeros: as many as one gated load reads

 private:
  void Wait(ir::UOp index);
  std::string Gated(ir::UOp index, int64_t elements);
  std::string Sum(std::string_view type, const std::string& a, const std::string& b);
  int64_t StreamedAlignment(ir::UOp store);
  int64_t FactorOf(ir::UOp u);

  ir::UOpContext& ctx_;
  LlvmText& text_;
  Accumulators accumulators_;
  absl::flat_hash_map<uint32_t, int64_t> factors_;
  GatedIndices gated_indices_{ctx_};
  // Addresses in the innermost loop so far that are those of zeros if a gate is false, with the
  // offset of the element. By ids of the buffer, the gate and the parts of the index.
  std::map<std::vector<uint32_t>, std::vector<std::pair<int64_t, std::string>>> gated_;
  int64_t zero_bytes_ = 8, next_block_ = 0, shared_bytes_ = 0;
  bool streams_ = false, waits_ = false;
};

}  // namespace uopd::render
