// SPDX-License-Identifier: MIT
// The memory of one run: the buffer of every slot, what has to be put there before, and the
// temporaries.
//
// Bind checks every argument before anything changes. Buffers that the run makes belong to the
// binding until Commit gives those with a handle to the store. Used by one thread; the program and
// the arguments outlive it.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "server/engine/run/run_service.h"

namespace uopd::engine {

// A stream of one of the program's devices.
class Streams {
 public:
  static absl::StatusOr<Streams> Take(const Program& program);
  devices::Stream& Of(const DeviceState* device);
  absl::Status Finish();  // of all, the first error

 private:
  absl::InlinedVector<std::pair<const DeviceState*, StreamLease>, 2> streams_;
};

class Binding {
 public:
  // INVALID_ARGUMENT names the slot or the variable; RESOURCE_EXHAUSTED the limit; DATA_LOSS a
  // buffer that the run would read and whose contents are lost.
  static absl::StatusOr<Binding> Bind(const Program& program, BufferStore& buffers,
                                      const RunCall& call, const RunLimits& limits);
  Binding(Binding&&) = default;

  // Queues zeroes and inline data for new and named buffers, then the copies for slots that share a
  // buffer.
  absl::Status Fill(Streams& streams);
  // The memory behind a reference of a step.
  devices::BufferArg Resolve(const schedule::BufferRef& ref) const;
  // What a client sees of slot i; null for one that is not used.
  devices::Buffer* buffer(size_t i) const { return slots_[i].buffer.get(); }
  // Gives the new buffers that have handles to the store; those that were written are no longer
  // lost.
  absl::Status Commit();
  // After a run that failed with `why`: what its first `begun` steps write is lost, and so says the
  // status that is returned.
  absl::Status Lose(size_t begun, absl::Status why);

 private:
  struct Slot {
    std::shared_ptr<devices::Buffer> buffer;
    uint64_t new_handle = 0;  // the buffer is made here and stays under this handle
    int made = -1;            // index into made_ if the buffer is made for this slot
    // Index into made_ of what steps get instead, a copy: another slot writes to `buffer`, and
    // reads come before.
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
  absl::StatusOr<int> Make(size_t i);
  // Sees to slots that are bound to one buffer.
  absl::Status Separate();
  // The same for those of one buffer, in ascending order.
  absl::Status SeparateSlots(std::span<const size_t> slots);
  absl::Status MakeArenas();

  const Program& program_;
  BufferStore& buffers_;
  const std::span<const Argument> arguments_;
  bool* const maybe_lost_;
  absl::InlinedVector<Slot, 8> slots_;
  absl::flat_hash_map<uint64_t, size_t> new_handles_;  // -> the slot whose buffer it names
  absl::InlinedVector<Allocation, 8> made_;
  absl::InlinedVector<Allocation, 2> arenas_;
};

}  // namespace uopd::engine
