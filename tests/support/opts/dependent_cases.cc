// SPDX-License-Identifier: MIT
#include "tests/support/opts/dependent_cases.h"

#include <random>

#include "core/base/text.h"
#include "core/ir/graph.h"

namespace uopd::tests {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kLengths[] = {2, 3, 4, 5, 7, 8, 16, 17, 33, 40};
constexpr int64_t kElements = 2048;  // of each buffer: more than any index

// Builds one kernel. Draws the same numbers each time.
class Chain {
 public:
  Chain(UOpContext& c, uint64_t seed) : c_(c), b_(c), random_(seed) {}

  UOp Build() {
    i_ = b_.Loop(1 + Draw(6));
    if (Draw(2) == 0) j_ = b_.Loop(1 + Draw(20));
    at_ = i_;
    for (int64_t n = 2 + Draw(3); n > 0; --n) AddReduction();
    // The stored value is made of all results, and of an element along an axis that no reduction
    // depends on.
    UOp value = Element(j_ ? j_ : i_);
    for (UOp r : results_) value = Mixed(value, r);
    const UOp to = b_.Buffer(0, Dtype::I32, kElements);
    return j_ ? b_.Kernel({b_.StoreLoops(to, b_.At(i_, 20, j_), value, {i_, j_})})
              : b_.Kernel({b_.StoreLoops(to, i_, value, {i_})});
  }

 private:
  int64_t Draw(uint64_t n) { return static_cast<int64_t>(random_() % n); }
  UOp Int(int64_t v) { return c_.Int(Dtype::I32, v); }

  // A load along `r`, in the row of the kernel or in one of all rows.
  UOp Element(UOp r) {
    const UOp from = b_.Buffer(1 + Draw(2), Dtype::I32, kElements);
    switch (Draw(3)) {
      case 0:
        return b_.Load(from, b_.At(at_, 41, r));
      case 1:
        return b_.Load(from, b_.At(r, 7, at_));
      default:
        return b_.Load(from, r);
    }
  }

  UOp Mixed(UOp x, UOp y) {
    switch (Draw(4)) {
      case 0:
        return Sub(c_, x, y);
      case 1:
        return Mul(c_, x, y);
      case 2:
        return ir::Alu(c_, Op::MAX, {x, y});
      default:
        return ir::Alu(c_, Op::XOR, {x, y});
    }
  }

  // An element along `r`, and results of earlier reductions.
  UOp Term(UOp r) {
    UOp out = Element(r);
    for (UOp earlier : results_) {
      if (Draw(3) != 0) out = Mixed(out, earlier);
    }
    return out;
  }

  UOp Reduced(UOp x, UOp r) { return Sum(c_, x, {r}, Draw(2) == 0 ? Op::ADD : Op::MAX); }
  UOp Axis() { return b_.Reduced(kLengths[Draw(std::size(kLengths))]); }

  // sum over l of term(l) * element(l, r): the element of a product that is at `r`.
  UOp Product(UOp r) {
    const UOp l = Axis();
    const UOp w = b_.Load(b_.Buffer(2, Dtype::I32, kElements), b_.At(l, 41, r));
    return Reduced(Mul(c_, Term(l), w), l);
  }

  void AddReduction() {
    const UOp r = Axis();
    switch (Draw(5)) {
      case 0:
        return results_.push_back(Reduced(Product(r), r));
      case 1: {  // the first place of the maximum of a product
        const UOp again = b_.Reduced(r.src(0));
        const UOp product = Product(r), most = Sum(c_, product, {r}, Op::MAX);
        const UOp is_most =
            ir::Alu(c_, Op::CMPEQ, {ir::Substitute(c_, product, {{r.id(), again}}), most});
        const UOp place =
            Where(c_, is_most, ir::Alu(c_, Op::NEG, {Cast(c_, again, Dtype::I32)}), Int(-99));
        return results_.push_back(Sum(c_, place, {again}, Op::MAX));
      }
      case 2: {  // a row that is staged, and read across
        const UOp again = b_.Reduced(r.src(0)), one = c_.Idx(1);
        const UOp row = ir::Staged(c_, Draw(2) == 0 ? Product(r) : Term(r), r.src(0).const_int(), r,
                                   {}, std::span<const UOp>(&r, 1));
        const UOp back = Sub(c_, Sub(c_, r.src(0), one), again);
        return results_.push_back(
            Reduced(Mixed(b_.Load(row, Draw(2) == 0 ? back : again), Element(again)), again));
      }
      default:
        return results_.push_back(Reduced(Term(r), r));
    }
  }

  UOpContext& c_;
  KernelBuilder b_;
  std::mt19937_64 random_;
  UOp i_, j_, at_;
  std::vector<UOp> results_;
};

}  // namespace

std::vector<KernelCase> DependentCases(uint64_t first, int64_t count) {
  std::vector<KernelCase> out;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    out.push_back({Cat("dependent_", seed),
                   [seed](UOpContext& c) { return Chain(c, seed).Build(); },
                   {{Dtype::I32, kElements}, {Dtype::I32, kElements}, {Dtype::I32, kElements}},
                   0});
  }
  return out;
}

}  // namespace uopd::tests
