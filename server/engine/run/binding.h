// SPDX-License-Identifier: MIT
// The memory of one run: the buffer of every slot, the data that must be put there before the run,
// and the temporaries.
//
// Bind checks every argument before it changes anything. The binding owns the buffers that the run
// makes. Commit then gives those with a handle to the store. Used by one thread at a time. The
// program and the arguments outlive the binding.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "server/engine/run/run_service.h"
#include "server/engine/run/streams.h"

namespace uopd::engine {

class Binding {
 public:
  // INVALID_ARGUMENT names the slot or the variable. RESOURCE_EXHAUSTED names the limit. DATA_LOSS
  // names a buffer that the run would read and whose contents are lost.
  static absl::StatusOr<Binding> Bind(const Program& program, BufferStore& buffers,
                                      Streams& streams, const RunCall& call,
                                      const RunLimits& limits);
  Binding(Binding&&) = default;

  // Queues, in this order: zeroes for new buffers, inline data for new and named buffers, then the
  // copies for slots that share a buffer. After an error, the contents of the named buffers that
  // were to get data are lost.
  absl::Status Fill(Streams& streams);
  // The memory that a step's reference stands for.
  devices::BufferArg Resolve(const schedule::BufferRef& ref) const;
  // Gives the temporaries back after all steps. REQUIRES: all steps are queued.
  absl::Status FreeTemporaries(Streams& streams);
  // The buffer of slot i as the client sees it. Null if the slot is not used.
  devices::Buffer* buffer(size_t i) const { return slots_[i].buffer.get(); }
  // Gives the new buffers that have handles to the store. The contents of buffers that were written
  // whole are no longer lost.
  absl::Status Commit();
  // Called after a run that failed with `why` once Fill had succeeded. The buffers that its first
  // `begun` steps write are marked as lost, and the returned status names them. So are the buffers
  // that the run brought data for, unless the data have arrived: then they are the contents, of a
  // new version.
  absl::Status Lose(size_t begun, bool data_arrived, absl::Status why);

 private:
  struct Slot {
    std::shared_ptr<devices::Buffer> buffer;
    uint64_t new_handle = 0;  // the buffer is made by this run and gets this handle
    int made = -1;            // index into made_ if the buffer is made for this slot
    // The buffer is made for this slot, and other slots have it too: they may read what no slot
    // writes, so all of it is cleared.
    bool shared = false;
    // Index into made_ of the copy that steps use instead of `buffer`. Reason: another slot writes
    // to `buffer`, and this slot's reads come before these writes.
    int copy = -1;
  };

  Binding(const Program& program, BufferStore& buffers, const RunCall& call)
      : program_(program),
        buffers_(buffers),
        arguments_(call.arguments),
        maybe_lost_(call.maybe_lost) {}
  const Argument& argument(size_t i) const;
  absl::Status CheckArgument(size_t i) const;
  absl::Status BindSlot(size_t i);
  absl::Status CheckContents(size_t i) const;
  // An error if slot i cannot have a buffer that does not exist yet.
  absl::Status CheckUnknown(size_t i);
  absl::Status QueueFill(Streams& streams);
  // Whether the request brings data for the buffer, as the argument of any slot.
  bool HasData(uint64_t handle);
  // The existing buffers that the request brings data for, by whether the data fill all of them.
  struct Filled {
    absl::InlinedVector<uint64_t, 8> in_part, whole;
  };
  Filled FilledBuffers() const;
  // Marks the buffers as lost. Returns `why` with their names.
  absl::Status LoseBuffers(std::vector<uint64_t> lost, absl::Status why);
  absl::StatusOr<int> Make(size_t i);
  // Separates slots that are bound to the same buffer.
  absl::Status Separate();
  // The same for the slots of one buffer, in ascending order.
  absl::Status SeparateSlots(std::span<const size_t> slots);
  absl::Status MakeArenas(Streams& streams);

  const Program& program_;
  BufferStore& buffers_;
  const std::span<const Argument> arguments_;
  bool* const maybe_lost_;
  absl::InlinedVector<Slot, 8> slots_;
  absl::flat_hash_map<uint64_t, size_t> new_handles_;  // -> slot whose buffer has this handle
  std::optional<absl::flat_hash_set<uint64_t>> handles_with_data_;  // made when it is needed
  absl::InlinedVector<Allocation, 8> made_;
  absl::InlinedVector<Allocation, 2> arenas_;
};

}  // namespace uopd::engine
