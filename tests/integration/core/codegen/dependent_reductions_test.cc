// SPDX-License-Identifier: MIT
// Reductions of one kernel that use each other's results, by groups of threads of different sizes.
#include "tests/support/environment.h"
#include "tests/support/opts/dependent_cases.h"
#include "tests/support/opts/opts_fuzz.h"

namespace uopd {
namespace {

using codegen::OptKind;
using ir::Dtype;
using ir::UOp;
using tests::Sum;

// A row is staged by a group, and so are the products of that row with a matrix, each by all
// threads together: they compute the products of every row, not of their own, so one thread of the
// block stores them.
TEST(DependentReductionsTest, OneThreadStoresWhatTheBlockComputes) {
  ir::UOpContext c;
  tests::KernelBuilder b(c);
  const UOp i = b.Loop(4), k = b.Reduced(40), n = b.Reduced(16), l = b.Reduced(40),
            r = b.Reduced(16);
  const auto stage = [&](UOp value, UOp range) {
    return ir::Staged(c, value, range.src(0).const_int(), range, {},
                      std::span<const UOp>(&range, 1));
  };
  const UOp x = b.Load(b.Buffer(1, Dtype::I32, 160), b.At(i, 40, k)),
            w = b.Load(b.Buffer(2, Dtype::I32, 640), b.At(l, 16, n));
  const UOp row = stage(Mul(c, x, x), k);
  const UOp back = Sub(c, c.Idx(39), l);
  const UOp products = stage(Sum(c, Mul(c, b.Load(row, back), w), {l}), n);
  const UOp most = Sum(c, b.Load(products, r), {r}, ir::Op::MAX);
  const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 4), i, most, {i})});
  const std::vector<codegen::Opt> opts = {
      {OptKind::kGroup, 1, 16}, {OptKind::kGroup, 3, 16}, {OptKind::kLocal, 0, 4}};
  const tests::Memory memory = {tests::SampleBuffer(Dtype::I32, 4, 1, true),
                                tests::SampleBuffer(Dtype::I32, 160, 2, true),
                                tests::SampleBuffer(Dtype::I32, 640, 3, true)};
  for (const bool shuffles : {false, true}) {
    tests::CheckOptions check;
    check.target = tests::BlockTarget(shuffles);
    check.options.opts = &opts;
    EXPECT_EQ(CheckKernel(c, kernel, memory, check).substr(0, 300), "") << shuffles;
  }
}

// UOPD_FUZZ_DEPENDENT: the number of kernels, from the seed UOPD_FUZZ_SEED on.
TEST(DependentReductionsTest, LegalOptsKeepResultsInBlocks) {
  const auto kernels = test::CasesFromEnvironment("UOPD_FUZZ_DEPENDENT", 60);
  const auto seed = static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 3));
  EXPECT_GT(tests::FuzzBlockOpts(tests::DependentCases(seed, kernels), seed, 8), kernels * 4);
}

}  // namespace
}  // namespace uopd
