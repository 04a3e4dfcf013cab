// SPDX-License-Identifier: MIT
// Histories: what the contents of buffers were computed by, so that gradients flow through tensors
// that were realised or read. Internal to the library.
//
// A realised tensor's uop is its stored value (a BUFFER, or a MULTI of BUFFERs). The history of a
// stored value is the graph that it was computed by, which reads other stored values, and so on. A
// gradient is computed on the graph in which stored values are replaced by their histories
// (Expand); in the result, what is stored is read again instead of being computed
// (Expansion::back).
//
// A history ends
//   when nothing can ask for it: no buffer that it reads, by itself or through other histories, is
//     the memory of a live float, or read by a live tensor without memory. A value that was
//     computed from constants alone keeps its history: that reads no buffer;
//   when a buffer that it reads is written: the contents that it was computed from are gone. So a
//     history never keeps an assignment from happening in place;
//   when histories alone keep more than `most_bytes` of memory, or there are more than kMost: the
//   oldest ones end.
// In the last two cases the stored value remembers what its history may have read, buffers that
// were written since excepted: a gradient by one of these is an error (CheckWhole), not a part of
// the gradient.
//
// Invariant: the buffers that a history reads exist.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/buffer_table.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/graph.h"

namespace uopd::client {

struct TensorState;

// Whether gradients flow from a node to its sources: not through DETACH, and not through what is no
// float.
bool CarriesGradient(ir::UOp u);

class Histories {
 public:
  static constexpr size_t kMost = 4096;

  explicit Histories(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Whether the buffer was computed from others, as far as that can matter.
  bool Has(uint64_t number) const { return entries_.contains(number) || ended_.contains(number); }
  bool empty() const { return entries_.empty() && ended_.empty(); }
  // A moment. An earlier one has smaller numbers.
  struct Moment {
    uint64_t since = 0;    // TensorState::since
    uint64_t handle = 0;   // of buffers; a handle is never given twice
    uint64_t written = 0;  // ClientBuffer::written
  };
  Moment Now(uint64_t handle) { return {0, handle, ++next_written_}; }
  // REQUIRES: `reads` are the buffers below `value`; the stored value was Written.
  void Add(ir::UOp stored, ir::UOp value, std::vector<uint64_t> reads, Moment made);
  // Buffers, sorted. Null: all that there are.
  using Buffers = std::shared_ptr<const std::vector<uint64_t>>;
  // The stored value has no history, but was computed from what AllBelow gave for the buffers that
  // it reads: by a replay, or from its own old contents, among others.
  void AddEnded(ir::UOp stored, const Buffers& reads, Moment made);
  // The buffers, and those that they may have been computed from.
  Buffers AllBelow(std::span<const uint64_t> reads, const BufferTable& buffers) const;
  // Grows whenever AllBelow may give something else for the same buffers.
  uint64_t changes() const { return changes_; }
  // The buffer has new contents. `assigned`: another value than its tensor had before.
  void Written(uint64_t number, bool assigned, BufferTable& buffers);
  // The buffer is gone. REQUIRES: so is every buffer whose history reads it.
  void Removed(uint64_t number);
  // `value` is stored now. Histories that contain it, of tensors that were made after `since`, read
  // it from there.
  void Stored(ir::UOpContext& ctx, ir::UOp value, ir::UOp stored, uint64_t since = 0);

  // Histories that contain `value`, of tensors that were made after `since`, contain `now` instead,
  // which is the same with another name.
  void Renamed(ir::UOpContext& ctx, ir::UOp value, ir::UOp now, uint64_t since);

  // Whether somebody could ask for a gradient of what is computed from the buffers `reads`.
  // `known`: buffers that hold a float or that a tensor without memory, by which that may be, is
  // computed from. kInVain: only by what is below a history that has ended, so the answer is an
  // error.
  enum class Asked { kNever, kInVain, kMaybe };
  Asked MayBeAsked(std::span<const uint64_t> reads, const NumberSet& known) const;
  // Ends the histories of buffers in `live` that nobody can ask for, and the oldest ones if
  // histories keep too much memory. Adds to `kept` the buffers that the others read. `asked`: by
  // which they may be asked for (MayBeAsked). `reads`: those of histories that are going to be
  // added.
  void Keep(const NumberSet& live, const NumberSet& asked, std::span<const uint64_t> reads,
            const BufferTable& buffers, NumberSet& kept);

  // A graph in which stored values below the roots are replaced by what they were computed by.
  struct Expansion {
    std::vector<ir::UOp> roots;
    ir::Substitution back;  // id of what replaced a stored value -> the stored value
  };
  // Buffers that are copies of others (ClientBuffer::origin) are replaced by these, as long as both
  // have the same contents.
  Expansion Expand(ir::UOpContext& ctx, std::span<const ir::UOp> roots,
                   const BufferTable& buffers) const;
  // FAILED_PRECONDITION if gradients of an expanded root flow to a value whose history has ended
  // although it may have been computed from one of the targets.
  absl::Status CheckWhole(const ir::UOpContext& ctx, ir::UOp root,
                          std::span<const TensorState* const> targets,
                          const BufferTable& buffers) const;

  // Copies the graphs to another context.
  void MoveTo(const ir::UOpContext& from, ir::UOpContext& to,
              absl::flat_hash_map<uint32_t, ir::UOp>& map);

 private:
  struct Entry {
    ir::UOp stored, value;
    std::vector<uint64_t> reads;
    uint64_t order = 0;  // grows
    Moment made;
  };
  // A history that has ended. A value that is older than it, and that was stored later, was a graph
  // then, and may have been a part of it.
  struct Ended {
    Buffers reads;  // that it may have been computed from
    Moment made;

    bool MayRead(const TensorState& t, const BufferTable& buffers) const;
  };

  // The entries in an order in which each one comes after those whose stored values it reads. The
  // keys are the numbers of the stored values.
  static std::vector<const Entry*> InOrder(
      const absl::flat_hash_map<uint64_t, const Entry*>& entries, const BufferTable& buffers);
  // The entry of a stored value; null if there is none.
  const Entry* Find(ir::UOp stored) const;
  void Erase(uint64_t number);
  // Ends a history that somebody may ask for.
  void End(uint64_t number, const BufferTable& buffers);

  const uint64_t most_bytes_;
  uint64_t next_order_ = 0, next_written_ = 0, changes_ = 0;
  // By the number of the first buffer of the stored value.
  absl::flat_hash_map<uint64_t, Entry> entries_;
  absl::flat_hash_map<uint64_t, Ended> ended_;
  std::map<uint64_t, uint64_t> by_order_;  // order -> number
};

}  // namespace uopd::client
