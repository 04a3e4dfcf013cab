// SPDX-License-Identifier: MIT
#include "core/codegen/opts/choose/draft_opts.h"

#include <numeric>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/sum_forms.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::UOp;
using ir::UOpContext;

std::vector<Opt> Without(std::vector<Opt> opts, std::initializer_list<OptKind> kinds) {
  std::erase_if(opts,
                [&](const Opt& o) { return std::ranges::find(kinds, o.kind) != kinds.end(); });
  return opts;
}
int64_t Copies(const std::vector<Opt>& opts) {
  int64_t copies = 1;
  for (const Opt& o : opts) copies *= o.kind == OptKind::kUpcast ? o.amount : 1;
  return copies;
}

// The order in which the only sum of the kernel adds up.
std::string FormOf(UOpContext& ctx, UOp sink, const std::vector<Opt>& opts) {
  const Target target = tests::WideTarget();
  const auto applied = codegen::ApplyOpts(ctx, sink, target, opts);
  if (!applied.ok()) return StatusText(applied.status());
  const codegen::SumForms forms(ctx, *applied, target);
  return forms.Of(forms.sums().at(0), codegen::AxesOfSum(codegen::FloatSums(ctx, sink).at(0)));
}

TEST(DraftOptsTest, TilesBecomeSmallAndSumsKeepTheirOrder) {
  for (const auto& [m, k, n] :
       {std::tuple{96, 96, 96}, {128, 200, 256}, {7, 64, 80}, {1, 512, 64}, {33, 17, 49}}) {
    UOpContext ctx;
    const UOp sink = tests::MatmulKernel(ctx, m, n, k, false, false);
    const Target target = tests::WideTarget();
    const std::vector<Opt> full = codegen::HeuristicOpts(ctx, sink, target);
    const std::vector<Opt> draft = codegen::DraftOpts(ctx, sink, target, full);
    // A loop over a sum may be left as it is.
    const auto changed = {OptKind::kUpcast, OptKind::kPrefetch, OptKind::kUnroll};
    if (Copies(full) > 4) {
      EXPECT_LE(Copies(draft), 4);
      EXPECT_EQ(FormOf(ctx, sink, draft), FormOf(ctx, sink, full));
      EXPECT_EQ(Without(draft, changed), Without(full, changed));
    } else {
      EXPECT_EQ(draft, full);
    }
    codegen::Options options;
    options.draft = true;
    const auto lowered = codegen::Lower(ctx, sink, target, options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(lowered->opts, draft);
  }
}

TEST(DraftOptsTest, ATileThatIsSmallOrTransposesStays) {
  UOpContext ctx;
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(64), j = b.Loop(64);
  const UOp x = b.Buffer(1, ir::Dtype::F32, 64 * 64);
  const UOp sink = b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 64 * 64), b.At(i, 64, j),
                                          b.Load(x, b.At(j, 64, i)), {i, j})});
  const Target target = tests::WideTarget();
  const std::vector<Opt> full = codegen::HeuristicOpts(ctx, sink, target);
  ASSERT_GT(Copies(full), 4);
  EXPECT_EQ(codegen::DraftOpts(ctx, sink, target, full), full);
}

}  // namespace
}  // namespace uopd
