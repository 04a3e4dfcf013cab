// SPDX-License-Identifier: MIT
// StableSlots: which slots of a program have had the same contents in its recent runs.
//
// One session's runs of one program. Not thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace uopd::engine {

// The contents that a slot is bound to: a buffer of the session, and the version of its contents
// (BufferStore::Version). 0 and 0: contents that nobody can recognise again, such as data that came
// with the call.
struct Contents {
  uint64_t handle = 0, version = 0;
  bool operator==(const Contents&) const = default;
};

class StableSlots {
 public:
  // Notes the contents of every slot for a run that is about to begin.
  void Note(std::span<const Contents> now);
  // By slot: whether the last `runs` runs had the same contents.
  std::vector<bool> For(int runs) const;

 private:
  struct Slot {
    Contents last;
    int runs = 0;  // with these contents
  };
  std::vector<Slot> slots_;
};

}  // namespace uopd::engine
