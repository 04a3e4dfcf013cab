// SPDX-License-Identifier: MIT
#include "core/search/beam.h"

#include <algorithm>
#include <functional>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

// out[i] = sum over r of in[i, r]
UOp RowSums(ir::UOpContext& ctx, int64_t rows, int64_t columns) {
  const auto param = [&](int64_t slot, int64_t size) {
    return ir::Param(ctx, slot, Dtype::F32, ctx.Make(Op::STACK, Dtype::Index, {ctx.Idx(size)}));
  };
  const UOp i = ir::Range(ctx, ctx.Idx(rows), 0, AxisType::LOOP);
  const UOp r = ir::Range(ctx, ctx.Idx(columns), 1, AxisType::REDUCE);
  const UOp at = ir::Add(ctx, ir::Mul(ctx, i, ctx.Idx(columns)), r);
  const UOp x = ir::Load(ctx, ir::Index(ctx, param(1, rows * columns), at));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, x, std::span(&r, 1));
  const UOp store = ir::Store(ctx, ir::Index(ctx, param(0, rows), i), sum);
  const UOp end = ir::End(ctx, store, std::span(&i, 1));
  return ir::KernelSink(ctx, std::span(&end, 1), "sums");
}

Target TestTarget() {
  Target target;
  target.vector_bytes = 32;
  target.threads = 4;
  return target;
}

using Score = std::function<absl::StatusOr<double>(const Opts&)>;

class FakeMeasurer final : public Measurer {
 public:
  explicit FakeMeasurer(Score score) : score_(std::move(score)) {}
  std::vector<absl::StatusOr<double>> Measure(std::span<const Candidate> batch,
                                              double best_seconds) override {
    std::vector<absl::StatusOr<double>> out;
    for (const Candidate& candidate : batch) {
      seen.push_back(candidate.opts);
      texts.push_back(candidate.source);
      out.push_back(score_(candidate.opts));
    }
    largest_batch = std::max(largest_batch, batch.size());
    return out;
  }
  std::vector<Opts> seen;
  std::vector<std::string> texts;
  size_t largest_batch = 0;

 private:
  const Score score_;
};

int64_t AmountOf(const Opts& opts, OptKind kind, int axis) {
  for (const Opt& opt : opts) {
    if (opt.kind == kind && opt.axis == axis) return opt.amount;
  }
  return 1;
}

// Least at UPCAST(0, 4) with UNROLL(1, 8) and no THREAD or VECTOR, where it is 1.
double Bowl(const Opts& opts) {
  double score = 1;
  score += std::abs(static_cast<double>(AmountOf(opts, OptKind::kUpcast, 0)) - 4);
  score += std::abs(static_cast<double>(AmountOf(opts, OptKind::kUnroll, 1)) - 8);
  for (const Opt& opt : opts) {
    score += 3 * (opt.kind == OptKind::kThread || opt.kind == OptKind::kVector);
  }
  return score;
}

class BeamTest : public testing::Test {
 protected:
  absl::StatusOr<SearchResult> Search(FakeMeasurer& measurer) {
    return BeamSearch(ctx_, sink_, TestTarget(), options_, measurer);
  }
  ir::UOpContext ctx_;
  const UOp sink_ = RowSums(ctx_, 64, 96);
  BeamOptions options_;
};

TEST_F(BeamTest, WalksToTheMinimum) {
  ASSERT_TRUE(ir::Verify(ctx_, sink_, ir::Level::kKernel).ok());
  FakeMeasurer measurer(Bowl);
  const size_t nodes = ctx_.size();
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ctx_.size(), nodes);
  EXPECT_EQ(AmountOf(found->best, OptKind::kUpcast, 0), 4);
  EXPECT_EQ(AmountOf(found->best, OptKind::kUnroll, 1), 8);
  EXPECT_EQ(found->seconds, 1);
  EXPECT_EQ(found->stop, StopReason::kConverged);
  EXPECT_EQ(found->heuristic_seconds, Bowl(measurer.seen[0]));
  EXPECT_EQ(found->trials.size(), measurer.seen.size());
  EXPECT_LE(measurer.largest_batch, static_cast<size_t>(options_.batch));
  EXPECT_EQ(found->Ranking().front()->opts, found->best);
}

TEST_F(BeamTest, NoTextIsMeasuredTwice) {
  FakeMeasurer measurer(Bowl);
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok());
  std::vector<std::string> texts = measurer.texts;
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

TEST_F(BeamTest, TheSameTimesGiveTheSameSearch) {
  std::vector<Opts> first;
  for (int i = 0; i < 3; ++i) {
    ir::UOpContext ctx;
    for (int k = 0; k < i * 100; ++k) ctx.Idx(1000 + k);  // other ids and addresses
    options_.threads = i == 2 ? 3 : 1;
    const UOp sink = RowSums(ctx, 64, 96);
    FakeMeasurer measurer(Bowl);
    ASSERT_TRUE(BeamSearch(ctx, sink, TestTarget(), options_, measurer).ok());
    if (i == 0) first = measurer.seen;
    EXPECT_EQ(measurer.seen, first);
  }
}

TEST_F(BeamTest, ATieGoesToTheHeuristic) {
  FakeMeasurer measurer([](const Opts&) { return 1.0; });
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->best, measurer.seen[0]);
  EXPECT_EQ(found->stop, StopReason::kConverged);
}

TEST_F(BeamTest, FailedCandidatesAreDropped) {
  FakeMeasurer measurer([](const Opts& opts) -> absl::StatusOr<double> {
    if (AmountOf(opts, OptKind::kUpcast, 0) == 4) return absl::AbortedError("worker died");
    return Bowl(opts);
  });
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok());
  EXPECT_NE(AmountOf(found->best, OptKind::kUpcast, 0), 4);
  EXPECT_EQ(found->seconds, 2);  // UPCAST 3 or 5
  const bool told = std::any_of(found->trials.begin(), found->trials.end(), [](const Trial& t) {
    return t.outcome == Trial::kFailed && t.error.find("worker died") != std::string::npos;
  });
  EXPECT_TRUE(told);
}

TEST_F(BeamTest, NothingMeasuredIsTheFirstError) {
  FakeMeasurer measurer([](const Opts&) { return absl::AbortedError("no luck"); });
  EXPECT_TRUE(absl::IsAborted(Search(measurer).status()));
  FakeMeasurer nan([](const Opts&) { return std::nan(""); });
  EXPECT_TRUE(absl::IsInternal(Search(nan).status()));
}

TEST_F(BeamTest, StopsAtTheBudget) {
  options_.max_candidates = 7;
  FakeMeasurer measurer(Bowl);
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(measurer.seen.size(), 7);
  EXPECT_EQ(found->stop, StopReason::kBudget);
}

TEST_F(BeamTest, CancellingKeepsWhatWasFound) {
  int trials = 0;
  options_.batch = 1;
  options_.progress = [&](const Trial&) { ++trials; };
  options_.limits.cancelled = [&] { return trials >= 9; };  // behind the seeds, which are one batch
  FakeMeasurer measurer(Bowl);
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->stop, StopReason::kCancelled);
  EXPECT_EQ(measurer.seen.size(), 9);
  double best = 1e9;
  for (const Opts& opts : measurer.seen) best = std::min(best, Bowl(opts));
  EXPECT_EQ(found->seconds, best);

  options_.limits.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Search(measurer).status()));
}

TEST_F(BeamTest, EachStepTellsWhatItLeftOut) {
  std::vector<size_t> trials;
  int pruned = -1, duplicates = -1;
  options_.stepped = [&](const SearchResult& so_far) {
    trials.push_back(so_far.trials.size());
    EXPECT_GE(so_far.duplicates, duplicates);
    pruned = so_far.pruned;
    duplicates = so_far.duplicates;
  };
  FakeMeasurer measurer(Bowl);
  const auto found = Search(measurer);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GE(trials.size(), 2u);
  EXPECT_TRUE(std::ranges::is_sorted(trials));
  // The last call is at the end, and knows everything.
  EXPECT_EQ(trials.back(), found->trials.size());
  EXPECT_EQ(pruned, found->pruned);
  EXPECT_EQ(duplicates, found->duplicates);
  EXPECT_GT(pruned + duplicates, 0);
}

TEST_F(BeamTest, ADeadlineThatPassedIsAnError) {
  options_.limits.deadline = std::chrono::steady_clock::now();
  FakeMeasurer measurer(Bowl);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Search(measurer).status()));
  EXPECT_TRUE(measurer.seen.empty());
}

TEST_F(BeamTest, BoundsCodeSize) {
  options_.max_unrolled = 8;
  FakeMeasurer measurer(
      [](const Opts& opts) { return 1.0 / (1 + static_cast<double>(opts.size())); });
  ASSERT_TRUE(Search(measurer).ok());
  const auto axes = SpaceOf(ctx_, sink_).axes;
  for (size_t i = 2; i < measurer.seen.size(); ++i) {  // the starts are not ours to bound
    EXPECT_LE(UnrolledElements(axes, measurer.seen[i]), 8);
  }
  // What a user would run anyway is measured, whatever its size.
  options_.max_lines = 10;
  FakeMeasurer one(Bowl);
  const auto found = Search(one);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->trials.size(), 1);
  EXPECT_EQ(found->heuristic_seconds, found->seconds);
}

TEST(Moves, OneStepAddsChangesOrDrops) {
  const std::vector<AxisInfo> axes{{12, false}, {0, false}, {8, true}};
  const Opts from{{OptKind::kVector, 1, 8}, {OptKind::kUpcast, 0, 2}};
  std::vector<Opts> next = Neighbours({axes, 1}, TestTarget(), from);
  const auto has = [&](const Opts& opts) {
    return std::find(next.begin(), next.end(), opts) != next.end();
  };
  EXPECT_TRUE(has({{OptKind::kVector, 1, 8}}));
  EXPECT_TRUE(has({{OptKind::kUpcast, 0, 2}}));
  EXPECT_TRUE(has({{OptKind::kVector, 1, 8}, {OptKind::kUpcast, 0, 4}}));
  EXPECT_TRUE(has({{OptKind::kVector, 1, 16}, {OptKind::kUpcast, 0, 2}}));
  EXPECT_TRUE(has({{OptKind::kVector, 1, 8}, {OptKind::kUpcast, 0, 2}, {OptKind::kUnroll, 2, 0}}));
  // In canonical order, whatever was added last.
  EXPECT_TRUE(has({{OptKind::kThread, 0, 4}, {OptKind::kVector, 1, 8}, {OptKind::kUpcast, 0, 2}}));
  for (const Opts& opts : next) {
    EXPECT_EQ(opts, Canonical(opts));
    EXPECT_NE(opts, from);
    for (const Opt& opt : opts) {
      const bool whole = opt.axis == 1 && opt.amount == 0;  // of an axis of unknown size
      EXPECT_FALSE(whole && opt.kind != OptKind::kThread);
      EXPECT_FALSE(opt.axis == 2 && opt.kind == OptKind::kUpcast) << "a reduced axis";
      EXPECT_FALSE(opt.kind == OptKind::kThread && opt.axis == 0 && 12 % opt.amount != 0);
    }
  }
  std::vector<std::string> keys;
  for (const Opts& opts : next) {
    std::string key;
    for (const Opt& opt : opts) key += codegen::Text(opt);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

}  // namespace
}  // namespace uopd::search
