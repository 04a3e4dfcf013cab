// SPDX-License-Identifier: MIT
#include "core/codegen/pass_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "core/rewrite/rewrite_trace.h"
#include "tests/support/generated_section.h"
#include "tests/support/kernel_check.h"

namespace uopd::codegen {
namespace {

using ::testing::HasSubstr;

TEST(PassTableTest, EachRowBeginsWhereTheRowBeforeEnds) {
  std::set<std::string_view> names;
  Pass::Form form = Pass::Form::kKernel;
  for (const Pass& pass : Passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_EQ(pass.before, form) << pass.name;
    form = pass.after;
  }
  EXPECT_EQ(form, Pass::Form::kLines);
}

TEST(PassTableTest, DocsListIt) {
  test::ExpectGenerated("codegen/passes.md", "passes", PassesDocs());
}

TEST(PassTableTest, FilesAreThere) {
  const auto core =
      std::filesystem::path(test::PathOfDoc("codegen.md")).parent_path().parent_path() / "core";
  for (const Pass& pass : Passes())
    EXPECT_TRUE(std::filesystem::exists(core / pass.file)) << pass.name << ": " << pass.file;
}

// The sums of 2^30 rows: a launch of many short blocks. Each term has a factor 1, which rules take
// away.
ir::UOp LongSums(ir::UOpContext& ctx) {
  constexpr int64_t kRows = int64_t{1} << 30, kTerms = 32;
  tests::KernelBuilder b(ctx);
  const ir::UOp i = b.Loop(kRows), r = b.Reduced(kTerms);
  const ir::UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, kRows * kTerms), b.At(i, kTerms, r));
  const ir::UOp term = ir::Alu(ctx, ir::Op::MUL, {x, ctx.Float(ir::Dtype::F32, 1)});
  const ir::UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, term, std::array{r});
  return b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, kRows), i, sum, {i})});
}

// A product of bf16 matrices. The rows of the first one lie in memory with `gap` elements after
// every eighth.
ir::UOp ProductOfRows(ir::UOpContext& ctx, int64_t gap) {
  constexpr int64_t kRows = 64, kColumns = 96, kTerms = 128, kNeighbours = 8;
  tests::KernelBuilder b(ctx);
  const ir::UOp i = b.Loop(kRows), j = b.Loop(kColumns), k = b.Reduced(kTerms);
  const ir::UOp gaps = ir::Alu(ctx, ir::Op::FLOORDIV, {i, ctx.Idx(kNeighbours)});
  const ir::UOp at = ir::Add(ctx, b.At(i, kTerms, k), ir::Mul(ctx, gaps, ctx.Idx(gap)));
  const auto widened = [&](int64_t slot, int64_t elements, ir::UOp index) {
    return ir::Cast(ctx, b.Load(b.Buffer(slot, ir::Dtype::BF16, elements), index), ir::Dtype::F32);
  };
  const ir::UOp product =
      ir::Mul(ctx, widened(1, kRows * (kTerms + gap), gap == 0 ? b.At(i, kTerms, k) : at),
              widened(2, kTerms * kColumns, b.At(k, kColumns, j)));
  const ir::UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, product, std::array{k});
  return b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, kRows * kColumns), b.At(i, kColumns, j),
                                sum, {i, j})});
}

class PassesTest : public ::testing::Test {
 protected:
  const Target target_ = tests::WideTarget();
  const Options options_;
  ir::UOpContext ctx_;
  const ir::UOp sink_ = tests::MatmulKernel(ctx_, 8, 16, 32, false, false);
};

TEST_F(PassesTest, TheTableIsLower) {
  KernelWork work{ctx_, target_, options_, sink_};
  ASSERT_TRUE(RunPasses(work).ok());
  const auto kernel = Lower(ctx_, sink_, target_, options_);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(work.root, kernel->linear);
  EXPECT_EQ(work.kernel.name, kernel->name);
  EXPECT_EQ(work.kernel.opts, kernel->opts);
}

TEST_F(PassesTest, EndsAfterThePassThatIsNamed) {
  KernelWork work{ctx_, target_, options_, sink_};
  ASSERT_TRUE(RunPasses(work, *PassesUpTo("unroll")).ok());
  EXPECT_TRUE(work.root.Is(ir::Op::SINK));
  EXPECT_EQ(PassesUpTo("unroll")->back().name, "unroll");
  EXPECT_TRUE(absl::IsNotFound(PassesUpTo("unrol").status()));
}

// uopd-opt may run a pass again.
TEST_F(PassesTest, OptsCanBeChosenTwice) {
  const ir::UOp n = ir::Variable(ctx_, "n", 1, 8);
  tests::KernelBuilder b(ctx_);
  const ir::UOp i = b.Loop(n);
  const ir::UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, 8), i);
  KernelWork work{ctx_, target_, options_,
                  b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, 8), i, x, {i})})};
  for (int times = 0; times < 2; ++times)
    ASSERT_TRUE(RunPasses(work, *PassesUpTo("choose_opts")).ok());
  EXPECT_EQ(work.kernel.variables, std::vector<std::string>{"n"});
  EXPECT_EQ(work.largest, std::vector<int64_t>{8});
}

// What the trace has of `work`. Later tests record nothing.
std::string TraceOf(const std::function<void()>& work) {
  const std::string path = ::testing::TempDir() + "/pass_table_test.jsonl";
  EXPECT_TRUE(rewrite::TraceFile::Open(path).ok());
  work();
  rewrite::TraceFile::Close();
  std::ifstream in(path);
  std::string out((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(path);
  return out;
}

// What a row decided goes to the trace, with the name that the kernel has at the end.
TEST_F(PassesTest, ReasonsAreTraced) {
  const ir::UOp sums = LongSums(ctx_);
  const Target target = *GpuTarget("sm_80");
  const std::string trace = TraceOf([&] {
    const auto kernel = Lower(ctx_, sums, target, options_);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->opts.back().kind, OptKind::kPersist);
  });
  EXPECT_THAT(trace, HasSubstr("longer than they run: PERSIST("));
  EXPECT_THAT(trace, ::testing::ContainsRegex(
                         "\"name\":\"codegen r_1073741824_32_[0-9a-f]*/check_blocks\""));
}

// So are its rewrites, and those of its trials.
TEST_F(PassesTest, RewritesAreRecordedUnderTheirPass) {
  const std::string trace = TraceOf(
      [&] { ASSERT_TRUE(Lower(ctx_, LongSums(ctx_), *GpuTarget("sm_80"), options_).ok()); });
  for (const char* name : {"simplify", "check_blocks/trial/simplify"})
    EXPECT_THAT(trace, ::testing::ContainsRegex(Cat("\"codegen r_1073741824_32_[0-9a-f]*/", name,
                                                    "/[a-z]*\",\"root\"")));
}

// Without whole tiles the kernel is the one for a chip that has no instructions of whole tiles.
TEST_F(PassesTest, OptsForTilesThatCannotBeMadeAreChosenAgain) {
  using enum DtypeNumber;
  Target rows = target_;
  rows.vector_bytes = 64, rows.vector_registers = 32;
  rows.matrix_instructions = {{"avx512_bf16", 1, 16, 2, BF16, BF16, F32}};
  Target tiles = rows;
  tiles.matrix_instructions.push_back({"amx_bf16", 16, 16, 32, BF16, BF16, F32});
  // Eight neighbouring rows lie one after the other, then a gap follows.
  constexpr int64_t kGap = 100;
  for (const int64_t gap : {int64_t{0}, kGap}) {
    const auto lower = [&](ir::UOpContext& ctx, const Target& target) {
      return Lower(ctx, ProductOfRows(ctx, gap), target, options_);
    };
    ir::UOpContext other;
    const auto kernel = lower(ctx_, tiles), of_rows = lower(other, rows);
    ASSERT_TRUE(kernel.ok() && of_rows.ok()) << kernel.status() << of_rows.status();
    const bool has_tile = std::ranges::any_of(kernel->linear.srcs(),
                                              [](ir::UOp u) { return u.Is(ir::Op::WMMA_BLOCK); });
    EXPECT_EQ(has_tile, gap == 0);
    EXPECT_EQ(ir::Print(ctx_, kernel->linear) == ir::Print(other, of_rows->linear), !has_tile);
    EXPECT_EQ(kernel->name == of_rows->name, !has_tile);
  }
}

// So does the heuristic, which runs before the kernel has its name.
TEST_F(PassesTest, TheReasonForATileIsTraced) {
  const std::string trace = TraceOf([&] {
    for (const char* arch : {"", "sm_80", "sm_90a"}) {
      const Target target = *arch == '\0' ? target_ : *GpuTarget(arch);
      const ir::UOp product = tests::WideningMatmulKernel(
          ctx_, 512, 512, 512, false, false, ir::Dtype::F16, ir::Dtype::F16, ir::Dtype::F32);
      ASSERT_TRUE(Lower(ctx_, product, target, options_).ok()) << arch;
    }
    const ir::UOp floats = tests::WideningMatmulKernel(
        ctx_, 512, 512, 512, false, false, ir::Dtype::F32, ir::Dtype::F32, ir::Dtype::F32);
    ASSERT_TRUE(Lower(ctx_, floats, *GpuTarget("sm_80"), options_).ok());
    ASSERT_TRUE(Lower(ctx_, sink_, *GpuTarget("sm_80"), options_).ok());
  });
  for (const char* note :
       {"\\(a register tile\\): \\[UPCAST\\(", "takes threads along the output axes: \\[LOCAL\\(",
        "tiles of [0-9]* x [0-9]*, [0-9]* x [0-9]* of each thread, are estimated at",
        "tiles of [0-9]* x [0-9]* by mma[^ ]* are estimated at",
        "tiles of [0-9]* x [0-9]* by wgmma[^ ]* are estimated at [0-9]* cycles, the best of "
        "[0-9]*; those of"})
    EXPECT_THAT(trace, ::testing::ContainsRegex(note));
  EXPECT_THAT(trace,
              ::testing::ContainsRegex("\"name\":\"codegen r_512_512_512_[0-9a-f]*/choose_opts\""));
}

TEST_F(PassesTest, APassOfTheOtherMachinesChangesNothing) {
  for (const Pass& pass : Passes()) {
    if (pass.machines != Machines::kGpus) continue;
    KernelWork work{ctx_, target_, options_, sink_};
    EXPECT_TRUE(RunPass(pass, work).ok()) << pass.name;
    EXPECT_EQ(work.root, sink_) << pass.name;
  }
}

TEST_F(PassesTest, APassTakesItsFormOnly) {
  for (const Pass& pass : Passes()) {
    if (pass.before != Pass::Form::kLines || !pass.IsFor(target_)) continue;
    KernelWork work{ctx_, target_, options_, sink_};
    const absl::Status status = RunPass(pass, work);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << pass.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(pass.name));
  }
}

}  // namespace
}  // namespace uopd::codegen
