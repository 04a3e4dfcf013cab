// SPDX-License-Identifier: MIT
// Squads: threads of a block that execute its lines together, while other squads of the block are
// elsewhere (ROLE in docs/ir_linear.md). Until its roles begin a block is one squad.
//
// In a kernel that is right, the order in which squads go on changes nothing. So the interpreter
// takes one that a chip would hardly take: a squad that runs ahead as far as it can, one that
// always comes last, or a random one.
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/interp/memory.h"

namespace uopd::interp {

struct Squad {
  struct Loop {
    uint32_t begin = 0;  // the RANGE
    int64_t value = 0, size = 0;
  };
  // Matrix instructions of groups that nobody has waited for.
  struct Batch {
    std::vector<uint32_t> sums;
    std::vector<Memory::Copied> read;
  };
  enum class State : uint8_t { kRuns, kWaits, kForks, kDone };

  size_t first = 0, n = 0;     // threads
  uint32_t pc = 0, end = 0;    // the next instruction; where its lines end
  std::vector<Loop> loops;     // that it is in
  std::vector<Batch> batches;  // the oldest first, and
  Batch batch;                 // instructions of no batch yet
  State state = State::kRuns;
  std::string why;  // it waits

  bool HasBatches() const { return !batches.empty() || !batch.sums.empty(); }
  bool IsDone() const { return state == State::kDone; }
};

// The squads of the program's roles: of each role its warps, or the groups of warps that
// instructions take together. Empty if the roles are not those of a block of so many threads.
std::vector<Squad> SquadsOf(const Program& program, int64_t warp_lanes, size_t threads);

// The order in which squads go on. A value of the seed: 0 and 1 mod 4 always take the first or the
// last one that can go on, 2 takes them in an order of its own, 3 any of them. So four blocks, one
// after the other, see all four.
class Interleaving {
 public:
  Interleaving(uint64_t seed, size_t squads);

  struct Turn {
    size_t squad = 0;
    uint64_t steps = 0;  // instructions, until another squad may have its turn
  };
  // Nothing: all squads that are not done wait for each other.
  std::optional<Turn> MaybeNext(const std::vector<Squad>& squads);
  // The squad had its turn. Squads that wait are asked again after one has moved.
  void Ran(size_t squad, bool moved);

 private:
  static constexpr uint64_t kMostSteps = 64;
  std::mt19937_64 random_;
  const bool any_;             // a new order for each turn
  std::vector<size_t> order_;  // the first one that can go on has its turn
  std::vector<bool> stuck_;    // since a squad has moved
};

}  // namespace uopd::interp
