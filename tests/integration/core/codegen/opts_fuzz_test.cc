// SPDX-License-Identifier: MIT
// Kernels of many shapes under random opts.
#include "tests/support/opts/opts_fuzz.h"
#include "tests/support/environment.h"

namespace uopd {
namespace {

TEST(OptsFuzzTest, LegalOptsKeepResults) {
  const auto trials = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_OPTS", 8));
  const auto seed = static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 7));
  EXPECT_GT(tests::FuzzOpts(tests::OptsCases(), seed, trials), 7 * trials);
}

TEST(OptsFuzzTest, LegalOptsKeepResultsInBlocks) {
  const auto trials = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_BLOCK_OPTS", 12));
  const auto seed = static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 5));
  EXPECT_GT(tests::FuzzBlockOpts(tests::OptsCases(), seed, trials), 7 * trials);
}

}  // namespace
}  // namespace uopd
