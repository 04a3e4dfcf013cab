// SPDX-License-Identifier: MIT
// The memory that a launch of the interpreter sees: buffers, arrays of a block, arrays of its threads. Each
// access is checked against the bounds, against what was stored, and against what other threads did.
//
// An access is one of many threads at once: one loop over them for each kind of array. Belongs to one launch.
// Not thread-safe.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/interp/interpreter.h"

namespace uopd::interp {

// What is wrong with the access of a thread.
struct Fault {
  size_t thread = 0;  // of the block
  std::string what;
};

// Thread first + k accesses element index[k].i + offset of the array, for k from 0 to n - 1. Where there are
// gates and gates[k] is 0, it accesses nothing, and a load gives 0.
struct Access {
  uint32_t array = 0;
  size_t first = 0, n = 0;
  const Value* index = nullptr;
  int64_t offset = 0;
  const Value* maybe_gates = nullptr;

  bool Passes(size_t k) const { return maybe_gates == nullptr || maybe_gates[k].i != 0; }
  int64_t Element(size_t k) const { return index[k].i + offset; }
};

class Memory {
 public:
  Memory(const Program& program, const LaunchArguments& arguments, int64_t threads);

  // INVALID_ARGUMENT: a buffer is missing.
  absl::Status Check() const;
  void BeginBlock(int64_t block);
  void Barrier() {
    ++epoch_;
    fences_at_barrier_ = fences_;
  }

  // The first fault, or nothing. Threads after one with a fault access nothing.
  std::optional<Fault> MaybeLoad(const Access& access, Value* out);
  std::optional<Fault> MaybeStore(const Access& access, const Value* values);

  // Copies that run while the threads go on (ASYNC_COPY). Send notes that what the access has just stored is on its
  // way: nobody may access it. Land: it is there, as if the threads had stored it now.
  struct Copied {
    uint32_t array;
    size_t element;
  };
  void Send(const Access& access, std::vector<Copied>& copies);
  void Land(const std::vector<Copied>& copies);
  // The same of copies that every thread of the block has waited for, and that matrix instructions see without a fence
  // (BULK_WAIT).
  void LandForAll(const std::vector<Copied>& copies);
  // The number of the part between two barriers.
  int64_t epoch() const { return epoch_; }

  // Matrix instructions of groups of warps, which run while the threads go on (GROUP_MMA).
  // SHARED_FENCE: from the next barrier on they see what was stored in shared arrays before.
  void SharedFence() { ++fences_; }
  // They may change the accumulator from now on.
  void BeginSums(uint32_t array) { places_[array].begun = true; }
  // What is wrong if one changes the accumulator, or nothing. From here on until EndSums nobody may access it.
  std::optional<std::string> MaybeChangeSums(uint32_t array);
  void EndSums(uint32_t array) { --places_[array].changing; }
  // The values of an accumulator by element and thread.
  Value* Sums(uint32_t array) { return places_[array].values.data(); }
  // What is wrong if one reads the element of a shared array, or nothing. Until EndRead nobody may store there.
  std::optional<std::string> MaybeRead(Copied at, Value* out);
  // It has read the element: others may store there behind the next barrier.
  void EndRead(Copied at);

 private:
  static constexpr int64_t kNobody = -1, kSeveral = -2;
  static constexpr int64_t kCopy = -3;  // a writer that all threads have waited for
  // Who accessed an element of a buffer: numbers of threads in the launch. Nothing orders such accesses.
  struct BufferShadow {
    int64_t writer = kNobody, reader = kNobody;
  };
  // Who accessed an element of a shared array last, and in which epoch; epoch 0 is before the launch.
  struct SharedShadow {
    int64_t writer = kNobody, reader = kNobody;
    int64_t written = 0, read = 0;
    bool on_its_way = false;  // a copy that nobody has waited for
    int64_t fences = 0;       // SHARED_FENCEs before it was stored
    int matrix_reads = 0;     // of matrix instructions that nobody has waited for
  };
  struct Place {
    ir::AddrSpace space = ir::AddrSpace::GLOBAL;
    ir::Dtype dtype = ir::Dtype::Void;
    int64_t elements = 0;
    std::byte* data = nullptr;                 // of buffers
    std::vector<BufferShadow> buffer_shadows;  // by element; empty: nobody stores to the buffer
    std::vector<SharedShadow> shared_shadows;  // of shared arrays, by element
    std::vector<Value> values;                 // of arrays; of private ones by element and thread
    std::vector<uint8_t> stored;               // of private arrays, by element and thread
    // Of private arrays: matrix instructions that change it, and whether they may.
    int changing = 0;
    bool begun = false;
  };

  // These return the number of accesses before one with a fault.
  template <class Codec>
  size_t LoadBuffer(Place& place, const Access& access, const Codec& codec, Value* out);
  template <class Codec>
  size_t StoreBuffer(Place& place, const Access& access, const Codec& codec, const Value* values);
  size_t LoadShared(Place& place, const Access& access, Value* out);
  size_t StoreShared(Place& place, const Access& access, const Value* values);
  size_t LoadPrivate(Place& place, const Access& access, Value* out);
  size_t StorePrivate(Place& place, const Access& access, const Value* values);

  std::string LoadFault(const Place& place, int64_t element) const;
  std::string StoreFault(const Place& place, int64_t element, size_t thread) const;

  // The number of a thread in the launch: threads of other blocks have other numbers.
  int64_t LaunchId(size_t thread) const { return block_ * threads_ + static_cast<int64_t>(thread); }
  std::string WhoIs(int64_t launch_id) const;
  bool Stored(const SharedShadow& shadow) const { return shadow.written >= first_epoch_; }
  // Whether no barrier was since a thread stored the element.
  bool IsFresh(const SharedShadow& shadow) const {
    return shadow.written == epoch_ && shadow.writer != kCopy && program_.has_blocks();
  }

  const Program& program_;
  const LaunchArguments& arguments_;
  const int64_t threads_;
  std::vector<Place> places_;
  int64_t block_ = 0, epoch_ = 1;
  int64_t first_epoch_ = 1;  // of what shared arrays hold
  int64_t fences_ = 1;       // SHARED_FENCEs so far; at the last barrier
  int64_t fences_at_barrier_ = 1;
};

}  // namespace uopd::interp
