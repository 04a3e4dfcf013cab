// SPDX-License-Identifier: MIT
// Memory of a kernel as PTX: buffers, shared and private arrays, addresses, loads and stores.
//
// A private array whose indices are all constants is registers, one for each element; others lie in
// local memory. Buffers that the kernel never stores to are loaded through the read-only path
// (.nc).
#pragma once
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/group_mma.h"
#include "core/render/block_kernel.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

// Not thread-safe. The text and the kernel's facts must outlive it.
class PtxMemory {
 public:
  PtxMemory(PtxText& text, const BlockKernel& kernel) : text_(text), kernel_(kernel) {}

  // Decides which private arrays are registers. Before everything else.
  void FindArrays(ir::UOp linear);
  // A PARAM, whose address is the kernel's parameter of that name.
  absl::Status Param(ir::UOp u, const std::string& parameter);
  absl::Status Array(ir::UOp u);
  void Index(ir::UOp u);
  void Load(ir::UOp u);
  void Store(ir::UOp u);
  void MatrixLoad(ir::UOp u);
  void AsyncCopy(ir::UOp u);
  // A BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT or BULK_ARRIVE; `maybe_map`: the register with
  // the address of a copy's map.
  void Bulk(ir::UOp u, const std::string& maybe_map);
  // UNIMPLEMENTED: the target has no such matrix instruction.
  absl::Status GroupMma(const Target& target, ir::UOp u);

  // Loops: an address that is computed in a loop is not used after it.
  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope() { scopes_.pop_back(); }

  // Bytes of all shared arrays so far.
  int64_t shared_bytes() const { return shared_.bytes(); }

 private:
  static constexpr int64_t kWideBytes = 16;  // of the widest access

  // What an INDEX points to: an address, or elements of an array of registers from `first` on.
  struct Place {
    ir::UOp base;
    std::string address;  // a register, or the name of an array
    int64_t offset = 0;   // in bytes, to be added to the address
    int64_t first = 0;
  };
  std::string At(const Place& place, int64_t bytes) const;
  // The register that says where a GROUP_MMA finds the operand at an INDEX.
  std::string Descriptor(ir::UOp index, const ir::SharedMatrix& matrix);
  std::string_view Space(ir::UOp base) const;
  const std::vector<std::string>* Elements(ir::UOp base) const;
  // The register with base + x * bytes of an element.
  std::string Scaled(ir::UOp base, ir::UOp x, int64_t bytes);

  void LoadLane(ir::UOp u, const Place& place, int64_t lane, const std::string& gate,
                std::vector<std::string>& lanes);
  void LoadWide(ir::UOp u, const Place& place, int64_t first, int64_t n, const std::string& gate,
                std::vector<std::string>& lanes);
  void StoreLane(ir::UOp u, const Place& place, int64_t lane, const std::string& gate);
  void StoreWide(ir::UOp u, const Place& place, int64_t first, int64_t n, const std::string& gate);

  PtxText& text_;
  const BlockKernel& kernel_;
  Alignment alignment_;
  ir::SharedLayout shared_;
  absl::flat_hash_set<uint32_t> indexed_;             // arrays with an index that is no constant
  absl::flat_hash_map<uint32_t, std::string> bases_;  // address by PARAM or BUFFER
  absl::flat_hash_map<uint32_t, std::vector<std::string>> elements_;  // of arrays of registers
  absl::flat_hash_map<uint32_t, Place> places_;                       // by INDEX
  using Addresses = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::string>;
  std::vector<Addresses> scopes_ = std::vector<Addresses>(1);
};

}  // namespace uopd::render
