// SPDX-License-Identifier: MIT
// Buffers, addresses, loads and stores of a kernel as LLVM IR: arrays and accumulators on the stack,
// gates, prefetches and stores around the caches.
#pragma once
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/render/accumulators.h"
#include "core/render/gated_index.h"
#include "core/render/llvm_text.h"

namespace uopd::render {

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
