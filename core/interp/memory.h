// SPDX-License-Identifier: MIT
// The memory that a launch of the interpreter sees: buffers, arrays of a block, arrays of its
// threads. Each access is checked against the bounds, against what was stored, and against what
// other threads did.
//
// An access is one of many threads at once: one loop over them for each kind of array. Belongs to
// one launch. Not thread-safe.
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

// Thread first + k accesses element index[k].i + offset of the array, for k from 0 to n - 1. Where
// there are gates and gates[k] is 0, it accesses nothing, and a load gives 0.
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
  // Squads: threads of a block that go through its lines on their own from here on (ROLE in
  // docs/ir_linear.md), with the threads that they begin with. Each has a clock, and knows a time
  // of every other one: what that one did before. REQUIRES: no more than kMostSquads.
  static constexpr size_t kMostSquads = 32;
  void Fork(std::vector<size_t> first_threads);
  // Accesses are those of this squad until the next call.
  void Enter(size_t squad) { squad_ = squad; }
  using Times = std::vector<int64_t>;  // by squad
  // The squad tells `told` what it knows and has done. Who sees that comes behind it.
  void Tell(Times& told);
  void See(const Times& told);

  void Barrier() {
    ++epoch_;
    fences_at_barrier_ = fences_;
  }

  // The first fault, or nothing. Threads after one with a fault access nothing.
  std::optional<Fault> MaybeLoad(const Access& access, Value* out);
  std::optional<Fault> MaybeStore(const Access& access, const Value* values);

  // Copies that run while the threads go on (ASYNC_COPY). Send notes that what the access has just
  // stored is on its way: nobody may access it. Land: it is there, as if the threads had stored it
  // now.
  struct Copied {
    uint32_t array;
    size_t element;
    int64_t sent = 0;
  };
  void Send(const Access& access, std::vector<Copied>& copies);
  void Land(const std::vector<Copied>& copies);
  // The same of copies that all threads of the squad have waited for, and that matrix instructions
  // see without a fence (BULK_WAIT). What was sent to the same element later stays on its way.
  void LandForSquad(const std::vector<Copied>& copies);
  // The number of the part between two barriers.
  int64_t epoch() const { return epoch_; }

  // Matrix instructions of groups of warps, which run while the threads go on (GROUP_MMA).
  // SHARED_FENCE: from the next barrier on they see what was stored in shared arrays before.
  void SharedFence() { ++fences_; }
  // They may change the accumulator from now on.
  void BeginSums(uint32_t array) { SumsOf(places_[array]).begun = true; }
  // What is wrong if one changes the accumulator, or nothing. From here on until EndSums nobody may
  // access it. The threads are `n` from `first` on, those of the squad.
  std::optional<std::string> MaybeChangeSums(uint32_t array, size_t first, size_t n);
  void EndSums(uint32_t array) { --SumsOf(places_[array]).changing; }
  // The values of an accumulator by element and thread.
  Value* Sums(uint32_t array) { return places_[array].values.data(); }
  // What is wrong if one reads the element of a shared array, or nothing. Until EndRead nobody may
  // store there.
  std::optional<std::string> MaybeRead(Copied at, Value* out);
  // It has read the element: others may store there behind the next barrier.
  void EndRead(Copied at);

 private:
  static constexpr int64_t kNobody = -1, kSeveral = -2;
  static constexpr int64_t kCopy = -3;  // a writer that all threads have waited for
  // Who accessed an element of a buffer: numbers of threads in the launch. Nothing orders such
  // accesses.
  struct BufferShadow {
    int64_t writer = kNobody, reader = kNobody;
  };
  // Who accessed an element of a shared array last, and in which epoch; epoch 0 is before the
  // launch.
  struct SharedShadow {
    int64_t writer = kNobody, reader = kNobody;
    int64_t written = 0, read = 0;
    bool on_its_way = false;  // a copy that nobody has waited for
    int64_t fences = 0;       // SHARED_FENCEs before it was stored
    int matrix_reads = 0;     // of matrix instructions that nobody has waited for
    int64_t sent = 0;         // the number of the last copy to it
    uint32_t landed = 0;      // the squads that have waited for it
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
    // Of private arrays, by squad: matrix instructions that change it, and whether they may.
    struct Sums {
      int changing = 0;
      bool begun = false;
    };
    std::vector<Sums> sums;
    Times reads;  // of shared arrays in squads, by element and squad: when it was read last
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

  Place::Sums& SumsOf(Place& place) const { return place.sums[squad_]; }
  bool forked() const { return first_threads_.size() > 1; }
  // Whether the squad has waited for the copy that filled the element, if one did.
  bool HasWaited(const SharedShadow& shadow) const {
    return shadow.writer != kCopy || (shadow.landed >> squad_ & 1) != 0;
  }
  void NoteRead(Place& place, size_t element) const {
    place.reads[element * first_threads_.size() + squad_] = clocks_[squad_][squad_];
  }
  // A squad that has read the element, and that this one does not come behind.
  std::optional<size_t> MaybeReader(const Place& place, size_t element) const;

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
  std::vector<size_t> first_threads_ = {0};  // by squad
  std::vector<Times> clocks_;                // by squad; its own is at least 1
  size_t squad_ = 0;
  int64_t sent_ = 0;  // copies so far
};

}  // namespace uopd::interp
