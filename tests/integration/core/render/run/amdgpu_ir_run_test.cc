// SPDX-License-Identifier: MIT
// What LLVM IR for AMDGPU computes, without such a chip (tests/support/amdgpu), against the
// interpreter of kernel graphs: every kind of kernel with the heuristic's opts, with none and with
// random ones.
//
// UOPD_FUZZ_AMDGPU_OPTS is the number of lists of random opts for each processor, UOPD_FUZZ_SEED
// their seed.
#include "core/base/target/gpu_targets.h"
#include "gtest/gtest.h"
#include "tests/support/amdgpu/amdgpu_on_cpu.h"
#include "tests/support/environment.h"
#include "tests/support/opts/opts_fuzz.h"

namespace uopd {
namespace {

class AmdgpuIrRunTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#ifdef UOPD_SANITIZED
    GTEST_SKIP() << "the sanitizer does not know the stacks of threads of a GPU";
#endif
  }
};

TEST_P(AmdgpuIrRunTest, LegalOptsKeepResults) {
  Target target = *GpuTarget(GetParam());
  target.format = CodeFormat::kAmdgpuIr;
  const auto run = [&](ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                       tests::Memory& memory, const std::map<std::string, int64_t>& variables) {
    return tests::RunAmdgpuOnCpu(ctx, kernel, target, memory, variables);
  };
  tests::FuzzDeviceOpts(tests::OptsCases(), target, run,
                        static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 12)),
                        test::CasesFromEnvironment("UOPD_FUZZ_AMDGPU_OPTS", 30));
}

TEST_P(AmdgpuIrRunTest, MultipliesByMatrixInstructions) {
  Target target = *GpuTarget(GetParam());
  const std::vector<MatrixInstruction> all = target.matrix_instructions;
  ASSERT_FALSE(all.empty());
  for (const MatrixInstruction& i : all) {
    target.matrix_instructions = {i};
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    ir::UOpContext ctx;
    const ir::UOp kernel = tests::WideningMatmulKernel(ctx, 64, 48, 128, false, true, dtype(i.a),
                                                       dtype(i.b), dtype(i.sum));
    const std::vector<codegen::Opt> opts = {{codegen::OptKind::kTensorCore, 2, 0},
                                            {codegen::OptKind::kUpcast, 0, 2},
                                            {codegen::OptKind::kLocal, 1, 2}};
    tests::CheckOptions check;
    check.target = target;
    check.options.opts = &opts;
    check.tolerance = 1e-5;
    check.run_blocks = [&](ir::UOpContext& c, const codegen::LoweredKernel& lowered,
                           tests::Memory& m) {
      return tests::RunAmdgpuOnCpu(c, lowered, target, m, {});
    };
    const tests::Memory memory = {tests::SampleBuffer(dtype(i.sum), 64 * 48, 1, true),
                                  tests::SampleBuffer(dtype(i.a), 64 * 128, 2, true),
                                  tests::SampleBuffer(dtype(i.b), 48 * 128, 3, true)};
    EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 2000), "") << i.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AmdgpuIrRunTest, ::testing::Values("gfx942", "gfx1100", "gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace uopd
