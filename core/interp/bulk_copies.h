// SPDX-License-Identifier: MIT
// Copies of boxes of tensors to shared memory (BULK_COPY in docs/ir_linear.md), and the barriers by
// which threads wait for them and for each other.
//
// A barrier has phases, numbered from 0. A phase ends when as many threads have arrived as the
// BULK_INIT says, and copies of as many bytes are there as its BULK_EXPECT says, if it has one.
// Here the copies of a phase arrive as late as they may: when threads wait for it. Until then
// nobody may access what they fill, and other squads not before they have waited, too. A wait for a
// phase that never ends is reported: a device would hang.
//
// Belongs to one launch, as the Memory does, which must outlive it. Not thread-safe.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "core/interp/memory.h"

namespace uopd::interp {

class BulkCopies {
 public:
  BulkCopies(const Program& program, Memory& memory) : program_(program), memory_(memory) {}

  void BeginBlock() { barriers_.clear(); }
  // Whether copies run that nobody has waited for.
  bool Runs() const;

  // The first fault, or nothing. The accesses are of barriers, those of MaybeCopy of what it fills.
  std::optional<Fault> MaybeInit(const Access& barriers, int64_t arrivals);
  std::optional<Fault> MaybeExpect(const Access& barriers, int64_t bytes);
  std::optional<Fault> MaybeArrive(const Access& barriers);
  // `barrier` and the coordinates are values of each thread.
  std::optional<Fault> MaybeCopy(const Instruction& in, const Access& to, const Value* barrier,
                                 const std::vector<const Value*>& coordinates);
  struct Wait {
    std::optional<Fault> fault;
    bool over = true;  // else the threads wait; `why` the phase is not over
    std::string why;
  };
  Wait WaitAt(const Access& barriers, const Value* parities);

 private:
  struct Barrier {
    int64_t made = 0;      // the epoch
    size_t maker = 0;      // the thread
    int64_t arrivals = 1;  // of a phase
    int64_t phases = 0;    // that are over
    // Of the phase that is not over:
    int64_t arrived = 0;
    int64_t expected = -1;  // bytes; -1: no BULK_EXPECT yet
    int64_t bytes = 0;      // of its copies
    std::vector<Memory::Copied> copies;
    Memory::Times told;
    // Of the phase before:
    std::vector<Memory::Copied> last_copies;
    Memory::Times last_told;

    bool IsOver() const { return arrived == arrivals && bytes == std::max<int64_t>(expected, 0); }
    void EndPhase();
  };
  // The barrier as a thread sees it; null if the BULK_INIT is missing, or a BARRIER after it.
  Barrier* MaybeBarrier(uint32_t array, int64_t element, size_t thread);
  std::optional<Fault> MaybeCopyBox(const Instruction& in, size_t thread, int64_t to,
                                    const std::vector<int64_t>& begin, Barrier& barrier);

  const Program& program_;
  Memory& memory_;
  std::map<std::pair<uint32_t, int64_t>, Barrier> barriers_;  // by array and element
};

}  // namespace uopd::interp
