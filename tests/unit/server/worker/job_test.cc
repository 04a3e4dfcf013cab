// SPDX-License-Identifier: MIT
// The jobs of the daemon's workers on the CPU device, with kernels that behave and kernels that do
// not.
#include <signal.h>

#include <cmath>
#include <cstring>

#include "core/base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker/job/compile_job.h"
#include "server/worker/job/measure_buffers.h"
#include "server/worker/job/measure_job.h"
#include "server/worker/tune/check_outputs.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

using ir::Dtype;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kLimit{20'000};

// %body works on %p0 and %p1, the first two buffers.
std::string Kernel(std::string_view body, std::string_view declarations = "") {
  return Cat(declarations, R"(
define void @k(ptr %buffers, ptr %vars, i64 %thread) {
entry:
  %p0 = load ptr, ptr %buffers
  %q = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %q
)",
             body, "  ret void\n}\n");
}

// p0[thread] += p1[thread] * v0, f32
constexpr char kMulAdd[] = R"(
  %v = load i64, ptr %vars
  %f = sitofp i64 %v to float
  %a0 = getelementptr float, ptr %p0, i64 %thread
  %a1 = getelementptr float, ptr %p1, i64 %thread
  %x = load float, ptr %a0
  %y = load float, ptr %a1
  %m = fmul float %y, %f
  %s = fadd float %x, %m
  store float %s, ptr %a0
)";

class JobsTest : public testing::Test {
 protected:
  std::string Compile(const std::string& source) {
    JobResult result = pool_.Run(CompileRequest{"CPU", "", source}.ToJob(kLimit));
    EXPECT_EQ(result.outcome, JobResult::kDone) << result.status;
    return result.bytes;
  }
  MeasureRequest Request(const std::string& source, uint64_t elements) {
    MeasureRequest request;
    request.object = Compile(source);
    request.entry = "k";
    request.buffers = {{Dtype::F32, elements * 4, true, true},
                       {Dtype::F32, elements * 4, true, false}};
    request.shape.grid[0] = static_cast<int64_t>(elements);
    request.want_outputs = true;
    return request;
  }
  absl::StatusOr<MeasureAnswer> Measure(const MeasureRequest& request) {
    UOPD_ASSIGN(const std::string bytes, pool_.Run(request.ToJob(kLimit)).ToStatusOr());
    return MeasureAnswer::Decode(bytes);
  }

  Supervisor pool_{Forks(), PoolOf(1)};
};

TEST_F(JobsTest, CompilesTheSameBytesInEveryWorker) {
  Supervisor::Options options = PoolOf(1);
  options.setup.retire_after_jobs = 1;
  Supervisor pool(Forks(), options);
  const Job job = CompileRequest{"CPU", "", Kernel(kMulAdd)}.ToJob(kLimit);
  const JobResult first = pool.Run(job), second = pool.Run(job);
  ASSERT_EQ(first.outcome, JobResult::kDone) << first.status;
  EXPECT_EQ(first.bytes.substr(1, 3), "ELF");
  EXPECT_TRUE(first.bytes == second.bytes);
  EXPECT_EQ(pool.stats().spawned, 2);
}

TEST_F(JobsTest, CompilesForTheToolchainOfTheKeyOnly) {
  const JobResult result =
      pool_.Run(CompileRequest{"CPU", "another compiler", Kernel(kMulAdd)}.ToJob(kLimit));
  EXPECT_EQ(result.outcome, JobResult::kFailed);
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status)) << result.status;
}

TEST_F(JobsTest, ABadTextFailsAndTheWorkerLives) {
  const JobResult result = pool_.Run(CompileRequest{"CPU", "", "no IR"}.ToJob(kLimit));
  EXPECT_EQ(result.outcome, JobResult::kFailed);
  EXPECT_TRUE(absl::IsInternal(result.status)) << result.status;
  EXPECT_TRUE(
      absl::IsInvalidArgument(pool_.Run(CompileRequest{"nonsense", "", ""}.ToJob(kLimit)).status));
  EXPECT_EQ(pool_.stats().spawned, 1);
}

TEST_F(JobsTest, AnAbortOfTheToolchainCostsAWorker) {
  // Valid text that this target cannot select: LLVM aborts.
  const std::string source =
      Kernel("  %i = call i32 @llvm.amdgcn.workitem.id.x()\n  store i32 %i, ptr %p0\n",
             "declare i32 @llvm.amdgcn.workitem.id.x()\n");
  const JobResult result = pool_.Run(CompileRequest{"CPU", "", source}.ToJob(kLimit));
  ASSERT_EQ(result.outcome, JobResult::kCrashed) << result.status;
  EXPECT_TRUE(result.quarantined);
  Compile(Kernel(kMulAdd));
}

TEST_F(JobsTest, MeasuresAndReturnsTheOutputsOfTheFirstRun) {
  constexpr size_t kCount = 1000;
  MeasureRequest request = Request(Kernel(kMulAdd), kCount);
  request.variables = {3};
  request.runs = 4;
  const auto answer = Measure(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->runs, 5);
  EXPECT_GT(answer->min_ns, 0);
  EXPECT_GE(answer->median_ns, answer->min_ns);

  std::vector<float> x(kCount), y(kCount), got(kCount);
  FillPattern(Dtype::F32, 0, std::as_writable_bytes(std::span(x)));
  FillPattern(Dtype::F32, 1, std::as_writable_bytes(std::span(y)));
  ASSERT_EQ(answer->outputs.size(), 1);
  ASSERT_EQ(answer->outputs[0].size(), kCount * 4);
  std::memcpy(got.data(), answer->outputs[0].data(), kCount * 4);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(got[i], x[i] + y[i] * 3.0f) << i;
  EXPECT_EQ(Measure(request)->outputs, answer->outputs);
}

TEST_F(JobsTest, StopsWhatIsTooSlow) {
  MeasureRequest request = Request(Kernel(kMulAdd), 100'000);
  request.variables = {3};
  request.runs = 1000;
  request.best_ns = 1;
  EXPECT_EQ(Measure(request)->runs, 1);
  request.best_ns = 0;
  request.budget_ns = 1;
  EXPECT_EQ(Measure(request)->runs, 1);
}

TEST(ClearlySlowerTest, IsOneLongRunOrTwoOfSomeLength) {
  const auto is = [](int64_t best, int64_t first, std::vector<int64_t> timed) {
    return IsClearlySlower(best, first, timed);
  };
  EXPECT_FALSE(is(0, 1'000'000, {}));  // there is no best
  EXPECT_FALSE(is(100, 300, {}));
  EXPECT_TRUE(is(100, 301, {}));
  EXPECT_FALSE(is(100, 301, {120}));  // the first run was long, the timed one is not
  EXPECT_TRUE(is(100, 100, {301}));
  EXPECT_FALSE(is(100, 100, {140}));  // one run may have been disturbed
  EXPECT_TRUE(is(100, 100, {140, 131}));
  EXPECT_FALSE(is(100, 100, {140, 130}));
  EXPECT_FALSE(is(100, 100, {90, 140}));
}

TEST_F(JobsTest, AHangingKernelTimesOut) {
  MeasureRequest request = Request(Kernel(R"(
  br label %loop
loop:
  %v = load volatile float, ptr %p0
  br label %loop
never:
)"),
                                   1);
  const JobResult result = pool_.Run(request.ToJob(std::chrono::milliseconds(300)));
  EXPECT_EQ(result.outcome, JobResult::kTimedOut) << result.status;
  EXPECT_TRUE(pool_.Run(request.ToJob(kLimit)).refused);
}

TEST_F(JobsTest, AFaultingKernelCrashes) {
  const MeasureRequest request =
      Request(Kernel("  store volatile float 1.0, ptr inttoptr (i64 8 to ptr)\n"), 1);
  const JobResult result = pool_.Run(request.ToJob(kLimit));
  EXPECT_EQ(result.outcome, JobResult::kCrashed) << result.status;
#ifndef UOPD_SANITIZED  // which handle the signal and exit
  EXPECT_EQ(result.signal, SIGSEGV);
#endif
}

TEST_F(JobsTest, AStrayStoreIsFound) {
  const MeasureRequest request =
      Request(Kernel("  %a = getelementptr float, ptr %p1, i64 9\n  store float 1.0, ptr %a\n"), 8);
  const auto answer = Measure(request);
  EXPECT_TRUE(absl::IsInternal(answer.status())) << answer.status();
  EXPECT_THAT(answer.status().ToString(), HasSubstr("behind buffer (1)"));
}

// The buffers stay from job to job. Who wants outputs sees nothing of that, and a damaged guard is
// no one else's.
TEST_F(JobsTest, OneKernelDoesNotSpoilTheNext) {
  constexpr size_t kCount = 64;
  MeasureRequest good = Request(Kernel(kMulAdd), kCount);
  good.variables = {3};
  const auto want = Measure(good);
  ASSERT_TRUE(want.ok()) << want.status();
  // Writes what it should only read.
  MeasureRequest bad = Request(
      Kernel("  %a = getelementptr float, ptr %p1, i64 %thread\n  store float 7.0, ptr %a\n"),
      kCount);
  bad.want_outputs = false;
  ASSERT_TRUE(Measure(bad).ok());
  EXPECT_EQ(Measure(good)->outputs, want->outputs);
  MeasureRequest stray = Request(
      Kernel("  %a = getelementptr float, ptr %p1, i64 65\n  store float 1.0, ptr %a\n"), kCount);
  stray.want_outputs = false;
  EXPECT_TRUE(absl::IsInternal(Measure(stray).status()));
  MeasureRequest times = good;
  times.want_outputs = false;
  EXPECT_TRUE(Measure(times).ok());
  EXPECT_EQ(Measure(good)->outputs, want->outputs);
  EXPECT_EQ(pool_.stats().spawned, 1);
}

TEST_F(JobsTest, CutRequestsAreDataLoss) {
  MeasureRequest request = Request(Kernel(kMulAdd), 4);
  request.object = "o";
  request.variables = {-7};
  const std::string bytes = request.Encode();
  EXPECT_TRUE(MeasureRequest::Decode(bytes).ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(MeasureRequest::Decode(bytes.substr(0, n)).status())) << n;
  }
}

TEST(FillPattern, IsHarmlessAndDeterministic) {
  for (Dtype dtype : {Dtype::Bool, Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U64, Dtype::F8E4M3,
                      Dtype::F8E5M2, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
    const auto width = static_cast<size_t>(ir::ByteSize(dtype));
    std::vector<std::byte> a(width * 4096), b = a, c = a;
    FillPattern(dtype, 1, a);
    FillPattern(dtype, 1, b);
    FillPattern(dtype, 2, c);
    EXPECT_EQ(a, b) << ir::Name(dtype);
    EXPECT_NE(a, c) << ir::Name(dtype);
    for (size_t i = 0; i < 4096; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &a[i * width], width);
      if (ir::IsFloat(dtype)) {
        const double v = ir::DecodeFloat(dtype, bits);
        EXPECT_TRUE(std::isfinite(v) && v != 0 && std::abs(v) <= 1) << ir::Name(dtype) << " " << v;
      } else {
        EXPECT_TRUE(bits <= 16 && (bits >= 1 || dtype == Dtype::Bool)) << ir::Name(dtype);
      }
    }
  }
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(CheckOutputs, ForgivesRoundingAndNothingElse) {
  const float nan = std::nanf(""), inf = INFINITY;
  const auto check = [](const std::vector<float>& a, const std::vector<float>& b) {
    return CheckOutputs(Dtype::F32, Bytes(a), Bytes(b));
  };
  EXPECT_TRUE(check({1, nan, inf, 1000}, {1.00001f, nan, inf, 1000.01f}).ok());
  EXPECT_FALSE(check({1, 2}, {1, 2.01f}).ok());
  EXPECT_FALSE(check({1}, {nan}).ok());
  EXPECT_FALSE(check({nan}, {1}).ok());
  EXPECT_FALSE(check({inf}, {-inf}).ok());
  EXPECT_FALSE(check({1}, {inf}).ok());
  EXPECT_FALSE(check({1, 2}, {1}).ok());
  EXPECT_TRUE(CheckOutputs(Dtype::I32, "abcdefgh", "abcdefgh").ok());
  EXPECT_THAT(CheckOutputs(Dtype::I32, "abcdefgh", "abcdefgi").ToString(), HasSubstr("element 1"));
}

}  // namespace
}  // namespace uopd::worker
