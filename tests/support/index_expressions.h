// SPDX-License-Identifier: MIT
// Random expressions of index, bool and stored integers over ranges and variables, for tests of the
// rules: one for each seed.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "core/ir/context.h"

namespace uopd::testing {

class IndexExpressions {
 public:
  enum Profile {
    kMixed,       // sizes that shapes have, sometimes the ends of what an index may be
    kConditions,  // mostly what gates are made of: sums compared with numbers, AND, OR, WHERE
    kLimits,      // values around the ends of 64 bits, as index, i64 and u64
    kSizes,       // a size that is a variable: loops over it, its multiples, divisions by them
  };
  IndexExpressions(ir::UOpContext& ctx, uint64_t seed, Profile profile = kMixed);

  ir::UOp Root();
  ir::UOp Number();     // an index
  ir::UOp Condition();  // a bool, perhaps made now
  const std::vector<ir::UOp>& leaves() const { return leaves_; }

  int64_t Pick(int64_t lo, int64_t hi) {  // REQUIRES: lo <= hi
    const uint64_t values = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
    const uint64_t r = random_();
    return static_cast<int64_t>(static_cast<uint64_t>(lo) + (values == 0 ? r : r % values));
  }
  bool Chance(int64_t n) { return Pick(1, n) == 1; }

  // Values for the leaves. `corner` numbers the corners of the space; beyond them it is random.
  std::vector<int64_t> Point(uint64_t corner);
  // Makes values that lie in the bounds of the leaves some that the leaves can have at once.
  void MakePossible(std::vector<int64_t>& at) const;

 private:
  void MakeLeaves();
  void MakeSizes();
  ir::UOp Any(const std::vector<ir::UOp>& pool);
  int64_t Constant();
  int64_t Divisor();
  ir::UOp Index(int64_t v) { return ctx_.Idx(v); }
  ir::UOp Operand() { return Chance(3) ? Index(Constant()) : Any(numbers_); }
  ir::UOp Keep(ir::UOp u);
  void Step();
  void SizeStep();
  ir::UOp Stored();

  ir::UOpContext& ctx_;
  const Profile profile_;
  std::mt19937_64 random_;
  bool extreme_ = false, stored_too_ = false;
  ir::Dtype dtype_ = ir::Dtype::I32;
  std::vector<ir::UOp> leaves_, numbers_, bools_, stored_;
};

}  // namespace uopd::testing
