// SPDX-License-Identifier: MIT
// End to end: a kernel graph is tuned on the CPU through worker processes.
#include "server/worker/tune/tune_kernel.h"

#include <cstring>

#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker/job/measure_buffers.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

// c[m, n] = sum over k of a[m, k] * b[k, n], f32
UOp Matmul(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k) {
  const auto param = [&](int64_t slot, int64_t size) {
    return ir::Param(ctx, slot, Dtype::F32, ctx.Make(Op::STACK, Dtype::Index, {ctx.Idx(size)}));
  };
  const UOp i = ir::Range(ctx, ctx.Idx(m), 0, AxisType::LOOP);
  const UOp j = ir::Range(ctx, ctx.Idx(n), 1, AxisType::LOOP);
  const UOp r = ir::Range(ctx, ctx.Idx(k), 2, AxisType::REDUCE);
  const auto at = [&](UOp row, int64_t stride, UOp column) {
    return ir::Add(ctx, ir::Mul(ctx, row, ctx.Idx(stride)), column);
  };
  const UOp a = ir::Load(ctx, ir::Index(ctx, param(1, m * k), at(i, k, r)));
  const UOp b = ir::Load(ctx, ir::Index(ctx, param(2, k * n), at(r, n, j)));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, ir::Mul(ctx, a, b), std::span(&r, 1));
  const UOp store = ir::Store(ctx, ir::Index(ctx, param(0, m * n), at(i, n, j)), sum);
  const UOp loops[] = {i, j};
  const UOp end = ir::End(ctx, store, loops);
  return ir::KernelSink(ctx, std::span(&end, 1), "matmul");
}

Target TestTarget() {
  Target target;
  target.vector_bytes = 32;
  target.threads = 2;
  return target;
}

class TuneKernelTest : public testing::Test {
 protected:
  TuneKernelTest() {
    options_.beam.width = 2;
    options_.beam.max_candidates = 40;
  }
  Supervisor compile_{Forks(), PoolOf(2)}, measure_{Forks(), PoolOf(1)};
  TuneOptions options_;
};

TEST_F(TuneKernelTest, FindsCorrectOptsThatAreNoSlowerThanTheHeuristics) {
  constexpr int64_t kM = 64, kN = 80, kK = 48;
  ir::UOpContext ctx;
  const UOp sink = Matmul(ctx, kM, kN, kK);
  ASSERT_TRUE(ir::Verify(ctx, sink, ir::Level::kKernel).ok());
  const size_t nodes = ctx.size();
  const auto tuned = TuneKernel(ctx, sink, TestTarget(), options_, {compile_, measure_});
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(ctx.size(), nodes) << "candidates live in overlays";
  EXPECT_LE(tuned->seconds, tuned->heuristic_seconds);
  EXPECT_GT(tuned->seconds, 0);
  EXPECT_LE(tuned->search.seconds, tuned->search.heuristic_seconds);
  EXPECT_GT(tuned->search.trials.size(), 10);
  for (const std::string& text : tuned->rejected) ADD_FAILURE() << text;

  // The winner against a plain loop over the same made-up inputs.
  codegen::Options opts;
  opts.opts = &tuned->opts;
  const auto candidate = search::MakeCandidate(ctx, sink, TestTarget(), opts, 100'000);
  ASSERT_TRUE(candidate.ok()) << candidate.status();
  WorkerMeasurer measurer(ctx, sink, {compile_, measure_}, {});
  const auto object = measurer.Compile(std::span(&*candidate, 1)).front();
  ASSERT_TRUE(object.ok()) << object.status();
  const auto answer = measurer.Run(*candidate, *object, 0, 1, true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN);
  FillPattern(Dtype::F32, 1, std::as_writable_bytes(std::span(a)));
  FillPattern(Dtype::F32, 2, std::as_writable_bytes(std::span(b)));
  ASSERT_EQ(answer->outputs.size(), 1);
  ASSERT_EQ(answer->outputs[0].size(), c.size() * 4);
  std::memcpy(c.data(), answer->outputs[0].data(), c.size() * 4);
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double want = 0;
      for (int64_t k = 0; k < kK; ++k) want += double{a[i * kK + k]} * b[k * kN + j];
      ASSERT_NEAR(c[i * kN + j], want, 1e-4) << i << " " << j;
    }
  }
}

// What was measured once is known: a second search of the same kernel measures nothing, and finds
// the same.
TEST_F(TuneKernelTest, GoesOnFromWhatTheBookKnows) {
  ir::UOpContext ctx;
  const UOp sink = Matmul(ctx, 32, 40, 24);
  search::TrialBook book;
  options_.beam.book = &book;
  options_.beam.max_candidates = 12;
  const auto few = TuneKernel(ctx, sink, TestTarget(), options_, {compile_, measure_});
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(book.size(), 12);
  auto kept = search::TrialBook::Decode(book.Encode());
  ASSERT_TRUE(kept.ok()) << kept.status();
  options_.beam.book = &*kept;
  options_.beam.max_candidates = 16;  // so few that the models leave none out, whatever the times
  const auto more = TuneKernel(ctx, sink, TestTarget(), options_, {compile_, measure_});
  ASSERT_TRUE(more.ok()) << more.status();
  ASSERT_EQ(more->search.trials.size(), 16);
  for (size_t i = 0; i < 16; ++i) {
    const search::Trial& trial = more->search.trials[i];
    EXPECT_EQ(trial.remembered, i < 12) << i;
    if (i < 12) {
      EXPECT_EQ(trial.opts, few->search.trials[i].opts) << i;
      EXPECT_EQ(trial.seconds, few->search.trials[i].seconds) << i;
    }
  }
}

TEST_F(TuneKernelTest, CompilesAheadWhereThatIsAllowed) {
  ir::UOpContext ctx;
  const UOp sink = Matmul(ctx, 32, 40, 24);
  options_.overlap = true;
  const auto tuned = TuneKernel(ctx, sink, TestTarget(), options_, {compile_, measure_});
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_GT(tuned->search.trials.size(), 20);
  for (const auto& trial : tuned->search.trials) EXPECT_EQ(trial.error, "");
  EXPECT_THAT(tuned->rejected, testing::IsEmpty());
}

TEST_F(TuneKernelTest, EndsWhenCancelled) {
  ir::UOpContext ctx;
  const UOp sink = Matmul(ctx, 16, 16, 16);
  options_.beam.limits.cancelled = [] { return true; };
  const auto tuned = TuneKernel(ctx, sink, TestTarget(), options_, {compile_, measure_});
  EXPECT_TRUE(absl::IsCancelled(tuned.status())) << tuned.status();
}

TEST_F(TuneKernelTest, KeysNameWhatDecides) {
  TuneOptions other = options_;
  EXPECT_EQ(other.Key(), options_.Key());
  other.beam.width = 3;
  EXPECT_NE(other.Key(), options_.Key());
  other = options_;
  other.final_runs = 99;
  EXPECT_NE(other.Key(), options_.Key());
}

// A proof runs the kernel without opts first, and then the winner. Jobs in quarantine stand for
// those that crash.
class ProveKernelTest : public TuneKernelTest {
 protected:
  // The status of a proof whose `refused`th job to measure is in quarantine.
  absl::Status Prove(int refused, std::chrono::seconds life = QuarantineEntry().life) {
    int jobs = 0;
    Supervisor::Options pool = PoolOf(1);
    pool.look_up = [&](const Digest& job) -> std::optional<QuarantineEntry> {
      if (++jobs != refused) return std::nullopt;
      return QuarantineEntry{.job = job, .reason = "crashed", .life = life};
    };
    Supervisor measure(Forks(), pool);
    ir::UOpContext ctx;
    const UOp sink = Matmul(ctx, 16, 16, 16);
    const search::Opts opts = {{codegen::OptKind::kUpcast, 0, 4}};
    return ProveKernel(ctx, sink, TestTarget(), options_, opts, {compile_, measure}).status();
  }
};

TEST_F(ProveKernelTest, AWinnerThatEndsItsWorkerIsWrong) {
  EXPECT_TRUE(Prove(0).ok()) << Prove(0);
  EXPECT_TRUE(absl::IsInternal(Prove(2))) << Prove(2);
}

TEST_F(ProveKernelTest, NothingIsKnownFromTheFaultsOfOthers) {
  EXPECT_TRUE(absl::IsUnavailable(Prove(1))) << Prove(1);  // the kernel without opts
  EXPECT_TRUE(Prove(3).ok()) << Prove(3);                  // the heuristic's choice
  const absl::Status outside = Prove(2, Supervisor::kPassing);
  EXPECT_TRUE(absl::IsFailedPrecondition(outside)) << outside;
}

}  // namespace
}  // namespace uopd::worker
