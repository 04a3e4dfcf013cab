// SPDX-License-Identifier: MIT
#include "core/codegen/pass_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/ir/build.h"
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

TEST(PassTableTest, DocsListIt) { test::ExpectGenerated("codegen/passes.md", "passes", PassesDocs()); }

TEST(PassTableTest, FilesAreThere) {
  const auto core =
      std::filesystem::path(test::PathOfDoc("codegen.md")).parent_path().parent_path() / "core";
  for (const Pass& pass : Passes())
    EXPECT_TRUE(std::filesystem::exists(core / pass.file)) << pass.name << ": " << pass.file;
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
  constexpr int64_t kRows = int64_t{1} << 30, kTerms = 32;
  tests::KernelBuilder b(ctx_);
  const ir::UOp i = b.Loop(kRows), r = b.Reduced(kTerms);
  const ir::UOp x = b.Load(b.Buffer(1, ir::Dtype::F32, kRows * kTerms), b.At(i, kTerms, r));
  const ir::UOp sum = ir::ReduceRanges(ctx_, ir::Op::ADD, x, std::array{r});
  const ir::UOp sums = b.Kernel({b.StoreLoops(b.Buffer(0, ir::Dtype::F32, kRows), i, sum, {i})});
  const Target target = *GpuTarget("sm_80");
  const std::string trace = TraceOf([&] {
    const auto kernel = Lower(ctx_, sums, target, options_);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->opts.back().kind, OptKind::kPersist);
  });
  EXPECT_THAT(trace, HasSubstr("tries PERSIST("));
  EXPECT_THAT(trace, ::testing::ContainsRegex(
                         "\"name\":\"codegen r_1073741824_32_[0-9a-f]*/check_blocks\""));
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
  });
  for (const char* note :
       {"\\(a register tile\\): \\[UPCAST\\(",
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
