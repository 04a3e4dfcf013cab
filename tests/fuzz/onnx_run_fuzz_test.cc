// SPDX-License-Identifier: MIT
// Running ONNX models of strangers, before a daemon is asked: random and mutated programs, and
// small files that would cost much.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/fuzz/onnx_bombs.h"
#include "tests/fuzz/onnx_run_check.h"
#include "tests/fuzz/onnx_run_seeds.h"
#include "tests/fuzz/onnx_seeds.h"
#include "tests/support/environment.h"
#include "tests/support/onnx/wire_tree.h"

namespace uopd {
namespace {

using test::OnnxRunVerdict;
using test::WireTree;

// What one run may cost, whatever the model is: the limit of nodes bounds it.
constexpr double kMostSeconds = 20, kMostBytes = 1.5e9;

void ExpectCheap(const OnnxRunVerdict& run, const std::string& what) {
  EXPECT_EQ(run.wrong, "") << what;
#ifdef UOPD_SANITIZED
  EXPECT_LE(run.seconds, 6 * kMostSeconds) << what;
#else
  EXPECT_LE(run.seconds, kMostSeconds) << what;
#endif
  EXPECT_LE(run.peak, kMostBytes) << what;
  if (std::getenv("UOPD_FUZZ_SHOW") != nullptr)
    std::printf("%-40s %6.2f s %8.1f MB  %s\n", what.c_str(), run.seconds, run.peak / 1e6,
                run.status.ToString().substr(0, 150).c_str());
}

TEST(OnnxRunFuzz, MutatedProgramsRunOrAreRefused) {
  const int64_t rounds = test::CasesFromEnvironment("UOPD_FUZZ_FILES", 20'000);
  std::mt19937_64 random(static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 5)));
  int64_t well = 0, asked = 0;
  for (int64_t round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const std::vector<WireTree> program = test::RandomOnnxProgram(random);
    const std::string file =
        round % 2 == 0 ? test::Written(program) : test::MutateOnnx(program, random);
    const OnnxRunVerdict run = test::CheckOnnxRun(file);
    ExpectCheap(run, Cat("round ", round));
    well += run.status.ok() ? 1 : 0;
    asked += absl::IsFailedPrecondition(run.status) ? 1 : 0;
  }
  // Programs that stop at once would test little.
  EXPECT_GT(well, rounds / 50);
  EXPECT_GT(asked, rounds / 1000);
}

TEST(OnnxRunFuzz, SmallFilesCostLittle) {
  for (const test::OnnxBomb& bomb : test::OnnxBombs()) {
    const OnnxRunVerdict run = test::CheckOnnxRun(bomb.file);
    ExpectCheap(run, bomb.name);
    EXPECT_NE(StatusText(run.status).find(bomb.says), std::string::npos)
        << bomb.name << ": " << run.status;
  }
}

}  // namespace
}  // namespace uopd
