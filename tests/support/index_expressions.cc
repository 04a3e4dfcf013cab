// SPDX-License-Identifier: MIT
#include "tests/support/index_expressions.h"

#include "core/ir/build.h"

namespace uopd::test {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {
constexpr Dtype kStored[] = {Dtype::I8,  Dtype::U8,  Dtype::I16, Dtype::U16,
                             Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64};
}  // namespace

IndexExpressions::IndexExpressions(ir::UOpContext& ctx, uint64_t seed, Profile profile)
    : ctx_(ctx), profile_(profile), random_(seed * 0x9E3779B97F4A7C15u + 1) {
  extreme_ = profile == kLimits || (profile != kSizes && Chance(6));
  if (profile == kSizes)
    MakeSizes();
  else
    MakeLeaves();
  numbers_ = leaves_;
  stored_too_ = profile == kLimits ? Chance(2) : Chance(3);
  if (stored_too_) dtype_ = kStored[profile == kLimits ? Pick(6, 7) : Pick(0, 7)];
  const int64_t steps = Pick(3, 18);
  for (int64_t i = 0; i < steps; ++i) {
    if (profile == kSizes && Chance(2))
      SizeStep();
    else
      Step();
  }
}

void IndexExpressions::MakeLeaves() {
  const int leaves = static_cast<int>(Pick(1, 4));
  for (int i = 0; i < leaves; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    if (profile_ == kLimits && Chance(2)) {  // up to an end of 64 bits, or close to it
      const int64_t near = Pick(0, 3), width = int64_t{1} << Pick(0, 62);
      leaves_.push_back(Chance(2)
                            ? ir::Variable(ctx_, name, INT64_MIN + near, INT64_MIN + near + width)
                            : ir::Variable(ctx_, name, INT64_MAX - near - width, INT64_MAX - near));
    } else if (Chance(2)) {
      const int64_t size =
          extreme_ && Chance(2) ? (int64_t{1} << Pick(20, 62)) - Pick(0, 3) : Pick(1, 12);
      leaves_.push_back(ir::Range(ctx_, ctx_.Idx(size), i, ir::AxisType::LOOP));
    } else {
      int64_t lo = Pick(-8, 4), hi = lo + Pick(0, 12);
      if (extreme_ && Chance(2)) lo = -(int64_t{1} << Pick(1, 40)) + Pick(0, 2);
      if (extreme_ && Chance(2)) hi = (int64_t{1} << Pick(1, 40)) - Pick(0, 2);
      if (lo > hi) std::swap(lo, hi);
      leaves_.push_back(ir::Variable(ctx_, name, lo, hi));
    }
  }
}

void IndexExpressions::MakeSizes() {
  const UOp n = ir::Variable(ctx_, "n", 1, Pick(2, 6));
  leaves_.push_back(n);
  const int loops = static_cast<int>(Pick(1, 3));
  for (int i = 0; i < loops; ++i) {
    const UOp size = i == 0 || Chance(2) ? n : ctx_.Idx(Pick(2, 8));
    leaves_.push_back(ir::Range(ctx_, size, i, ir::AxisType::LOOP));
  }
}

// A step of kSizes: positions in a shape of symbolic size, and divisions as reshapes of that shape
// create them.
void IndexExpressions::SizeStep() {
  const UOp n = leaves_[0];
  const UOp size = Chance(3) ? n : ir::Mul(ctx_, n, Index(Pick(2, 6)));
  switch (Pick(0, 3)) {
    case 0:
      Keep(ir::Add(ctx_, Keep(ir::Mul(ctx_, Any(numbers_), n)), Any(leaves_)));
      return;
    case 1:
      Keep(ir::Add(ctx_, Keep(ir::Mul(ctx_, Any(numbers_), Index(Pick(2, 6)))), Any(leaves_)));
      return;
    default:
      Keep(ir::Alu(ctx_, Chance(2) ? Op::FLOORDIV : Op::FLOORMOD,
                   {Any(numbers_), Chance(4) ? Index(Pick(2, 8)) : size}));
  }
}

UOp IndexExpressions::Root() {
  if (!stored_.empty() && Chance(2)) return stored_.back();
  if (!bools_.empty() && Chance(profile_ == kConditions ? 2 : 3)) return bools_.back();
  return Number();
}
UOp IndexExpressions::Number() { return numbers_.back(); }

std::vector<int64_t> IndexExpressions::Point(uint64_t corner) {
  std::vector<int64_t> at;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const ir::Bounds b = ctx_.BoundsOf(leaves_[i]);
    const auto lo = static_cast<int64_t>(b.min), hi = static_cast<int64_t>(b.max);
    at.push_back(corner < (uint64_t{1} << leaves_.size()) ? (corner >> i & 1 ? hi : lo)
                                                          : Pick(lo, hi));
  }
  MakePossible(at);
  return at;
}

void IndexExpressions::MakePossible(std::vector<int64_t>& at) const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].Is(Op::RANGE) && leaves_[i].src(0) == leaves_[0])
      at[i] = std::min(at[i], at[0] - 1);
  }
}

UOp IndexExpressions::Any(const std::vector<UOp>& pool) {
  // Prefer recent nodes, so that expressions get deep.
  const auto n = static_cast<int64_t>(pool.size());
  return pool[static_cast<size_t>(Chance(2) ? Pick(0, n - 1)
                                            : Pick(std::max<int64_t>(0, n - 3), n - 1))];
}

int64_t IndexExpressions::Constant() {
  if (profile_ == kLimits && Chance(4))
    return Chance(2) ? INT64_MAX - Pick(0, 2) : INT64_MIN + Pick(0, 2);
  if (extreme_ && Chance(4))
    return (int64_t{1} << Pick(10, 61)) * (Chance(2) ? 1 : -1) + Pick(-1, 1);
  return Chance(4) ? Pick(-30, 60) : Pick(-4, 9);
}

int64_t IndexExpressions::Divisor() {
  constexpr int64_t kUsual[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24};
  return Chance(6) ? Constant() : kUsual[Pick(0, 10)];
}

UOp IndexExpressions::Condition() {
  if (bools_.empty() || Chance(3)) {
    constexpr Op kCompare[] = {Op::CMPLT, Op::CMPLT, Op::CMPNE, Op::CMPEQ};
    UOp a = Any(numbers_), b = Operand();
    if (profile_ == kConditions && Chance(2)) {  // as gates compare: a sum with a number
      a = Keep(ir::Add(ctx_, a, Keep(ir::Mul(ctx_, Any(leaves_), Index(Pick(1, 6))))));
      b = Index(Pick(0, 20));
    }
    return ir::Alu(ctx_, kCompare[Pick(0, 3)], {Chance(3) ? b : a, Chance(3) ? a : b});
  }
  return Any(bools_);
}

// Keeps u unless its bounds leave 64 bits, which Verify refuses. Returns the last index kept.
UOp IndexExpressions::Keep(UOp u) {
  const ir::IntRange full = ir::RangeOf(Dtype::Index);
  if (ctx_.BoundsOf(u).Within({full.min, full.max})) numbers_.push_back(u);
  return numbers_.back();
}

void IndexExpressions::Step() {
  const UOp x = Any(numbers_);
  const int64_t kind =
      profile_ == kConditions && !Chance(3) ? Pick(12, 15) : Pick(0, stored_too_ ? 20 : 15);
  switch (kind) {
    case 0:
      Keep(ir::Add(ctx_, x, Operand()));
      return;
    case 1:
      Keep(ir::Sub(ctx_, Chance(4) ? Index(Constant()) : x, Operand()));
      return;
    case 2:
    case 3:
      Keep(ir::Add(ctx_, Keep(ir::Mul(ctx_, x, Index(Constant()))), Operand()));
      return;
    case 4:
      Keep(ir::Mul(ctx_, x, Operand()));
      return;
    case 5:
      Keep(ir::Alu(ctx_, Op::FLOORDIV, {x, Index(Divisor())}));
      return;
    case 6:
      Keep(ir::Alu(ctx_, Op::FLOORMOD, {x, Index(Divisor())}));
      return;
    case 7: {
      constexpr Op kDivisions[] = {Op::FLOORDIV, Op::FLOORMOD, Op::CDIV, Op::CMOD};
      Keep(ir::Alu(ctx_, kDivisions[Pick(0, 3)], {x, Operand()}));
      return;
    }
    case 8:
      Keep(ir::Alu(ctx_, Op::MAX, {x, Operand()}));
      return;
    case 9: {
      constexpr Op kBits[] = {Op::AND, Op::OR, Op::XOR};
      Keep(ir::Alu(ctx_, kBits[Pick(0, 2)], {x, Operand()}));
      return;
    }
    case 10:
      Keep(ir::Alu(ctx_, Chance(2) ? Op::SHL : Op::SHR,
                   {x, Chance(3) ? Any(numbers_) : Index(Pick(-1, Chance(5) ? 70 : 8))}));
      return;
    case 11:
      Keep(Chance(2) ? ir::Alu(ctx_, Op::NEG, {x})
                     : ir::Alu(ctx_, Op::MULACC, {x, Operand(), Operand()}));
      return;
    case 12:
      bools_.push_back(Condition());
      return;
    case 13: {
      constexpr Op kLogic[] = {Op::AND, Op::OR, Op::XOR, Op::AND, Op::CMPNE, Op::CMPEQ, Op::CMPLT};
      const UOp a = Condition(), b = Condition();
      bools_.push_back(Chance(4) ? ir::Not(ctx_, a) : ir::Alu(ctx_, kLogic[Pick(0, 6)], {a, b}));
      return;
    }
    case 14:
      Keep(ir::Where(ctx_, Condition(), x, Operand()));
      return;
    case 15:
      if (!bools_.empty() && Chance(2)) {
        Keep(ir::Cast(ctx_, Any(bools_), Dtype::Index));
        return;
      }
      Keep(ir::Where(ctx_, Condition(), Operand(), x));
      return;
    default:
      StoredStep(kind, x);
  }
}

// The steps that create or use stored integers: kinds from 16 up. x: the index that Step has
// picked.
void IndexExpressions::StoredStep(int64_t kind, UOp x) {
  switch (kind) {
    case 16:
      stored_.push_back(ir::Cast(ctx_, x, dtype_));
      return;
    case 17: {
      const Dtype other = kStored[Pick(0, 7)];
      if (stored_.empty()) return;
      stored_.push_back(ir::Cast(ctx_, ir::Cast(ctx_, Any(stored_), other), dtype_));
      return;
    }
    case 18:
      if (stored_.empty()) return;
      if (Chance(3))
        bools_.push_back(ir::Alu(ctx_, Chance(2) ? Op::CMPLT : Op::CMPNE, {Stored(), Stored()}));
      else if (dtype_ != Dtype::U64)
        Keep(ir::Cast(ctx_, Stored(), Dtype::Index));
      return;
    case 19:
      stored_.push_back(ir::Where(ctx_, Condition(), Stored(), Stored()));
      return;
    default: {
      constexpr Op kOps[] = {Op::ADD,  Op::SUB,      Op::MUL,      Op::MAX, Op::CDIV,
                             Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::AND, Op::OR,
                             Op::XOR,  Op::SHL,      Op::SHR,      Op::ADD, Op::MUL};
      if (Chance(8))
        stored_.push_back(ir::Alu(ctx_, Op::NEG, {Stored()}));
      else
        stored_.push_back(ir::Alu(ctx_, kOps[Pick(0, 14)], {Stored(), Stored()}));
    }
  }
}

UOp IndexExpressions::Stored() {
  if (!stored_.empty() && !Chance(3)) return Any(stored_);
  if (Chance(2)) return ir::Cast(ctx_, Any(numbers_), dtype_);
  return ctx_.Int(dtype_, Chance(3) ? static_cast<int64_t>(random_()) : Pick(-3, 9));
}

}  // namespace uopd::test
