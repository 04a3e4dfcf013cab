// SPDX-License-Identifier: MIT
// IndexExpressions: random expressions of index, bool and stored integers over ranges and
// variables, for fuzz tests of the rules. A seed always gives the same expression.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "core/ir/context.h"

namespace uopd::test {

class IndexExpressions {
 public:
  enum Profile {
    kMixed,       // sizes that are usual in shapes, sometimes the limits of an index
    kConditions,  // mostly parts of gates: sums compared with numbers, AND, OR, WHERE
    kLimits,      // values near the ends of 64 bits, as index, i64 and u64
    kSizes,       // a symbolic size: loops over it, its multiples, divisions by these
  };
  IndexExpressions(ir::UOpContext& ctx, uint64_t seed, Profile profile = kMixed);

  ir::UOp Root();
  ir::UOp Number();     // an index
  ir::UOp Condition();  // a bool, either an existing one or a new comparison
  const std::vector<ir::UOp>& leaves() const { return leaves_; }

  int64_t Pick(int64_t lo, int64_t hi) {  // REQUIRES: lo <= hi
    const uint64_t values = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
    const uint64_t r = random_();
    return static_cast<int64_t>(static_cast<uint64_t>(lo) + (values == 0 ? r : r % values));
  }
  bool Chance(int64_t n) { return Pick(1, n) == 1; }

  // Values for the leaves: corner number `corner` of the space of values, or random values if there
  // is no such corner.
  std::vector<int64_t> Point(uint64_t corner);
  // Adapts values that lie in the bounds of the leaves, so that the leaves can have them at the
  // same time (a range must be below its size).
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
  void StoredStep(int64_t kind, ir::UOp x);
  void SizeStep();
  ir::UOp Stored();

  ir::UOpContext& ctx_;
  const Profile profile_;
  std::mt19937_64 random_;
  bool extreme_ = false, stored_too_ = false;
  ir::Dtype dtype_ = ir::Dtype::I32;
  std::vector<ir::UOp> leaves_, numbers_, bools_, stored_;
};

}  // namespace uopd::test
