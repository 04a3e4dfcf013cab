// SPDX-License-Identifier: MIT
// Kernels with BULK_COPYs are accepted by the compilers of CUDA C and of PTX, and do in machine
// code what the lines say.

#include "core/base/target/gpu_targets.h"
#include "core/ir/verify/spec.h"
#include "core/render/renderer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/bulk_ring.h"
#include "tests/support/gpu/compilers.h"
#include "tests/support/role_ring.h"

namespace uopd {
namespace {

using testing::HasSubstr;

class BulkCompileTest : public ::testing::TestWithParam<CodeFormat> {};

absl::StatusOr<std::string> RenderedRing(const tests::BulkRing& ring, CodeFormat format) {
  tests::KernelLines k(ring.words());
  const ir::UOp linear = ring.Lines(k);
  UOPD_TRY(ir::Verify(k.ctx, linear, ir::Level::kLinear));
  Target target = *GpuTarget("sm_90a");
  target.format = format;
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(format));
  return renderer->render({k.ctx, linear, "ring", {}, target, 2});
}

TEST_P(BulkCompileTest, RingsCompile) {
  for (const int64_t span : {128, 64, 32}) {
    const auto text = RenderedRing({.span = span, .parts = 3}, GetParam());
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr("cp.async.bulk.tensor.2d.shared::cluster.global"));
    EXPECT_THAT(*text, HasSubstr("mbarrier.try_wait.parity"));
    const bool ptx = GetParam() == CodeFormat::kPtx;
    const auto compiled =
        ptx ? tests::AssemblePtx(*text, "sm_90a") : tests::CompileCuda(*text, "sm_90a");
    if (tests::MaySkipCompiler(compiled.status())) GTEST_SKIP() << compiled.status().message();
    ASSERT_TRUE(compiled.ok()) << compiled.status() << *text;
    if (ptx) continue;
    const auto messages = tests::CudaMessages(*text, "sm_90a");
    ASSERT_TRUE(messages.ok()) << messages.status();
    EXPECT_THAT(*messages, HasSubstr(" 0 bytes spill stores"));
  }
}

// The map is a parameter of 128 bytes, aligned to 64, behind the stop word.
TEST_P(BulkCompileTest, TheMapIsTheLastParameter) {
  const auto text = RenderedRing({}, GetParam());
  ASSERT_TRUE(text.ok()) << text.status();
  const size_t map =
      text->find(GetParam() == CodeFormat::kPtx ? ".param .align 64 .b8 ring_map0[128]\n)"
                                                : "const __grid_constant__ TensorMap map0)");
  ASSERT_NE(map, std::string::npos) << *text;
  EXPECT_LT(text->find("stop"), map);
}

// Roles are branches of one choice, and the compilers take their numbers of registers.
TEST_P(BulkCompileTest, RingsOfRolesCompile) {
  for (const auto& [producers, few, many] : {std::tuple<int, int, int>{32, 0, 0}, {128, 40, 232}}) {
    const tests::RoleRing ring{
        .parts = 3, .producers = producers, .producer_registers = few, .consumer_registers = many};
    tests::KernelLines k(ring.threads());
    const ir::UOp linear = ring.Lines(k);
    Target target = *GpuTarget("sm_90a");
    target.format = GetParam();
    const auto renderer = render::RendererFor(GetParam());
    ASSERT_TRUE(renderer.ok()) << renderer.status();
    const auto text = (*renderer)->render({k.ctx, linear, "roles", {}, target, 2});
    ASSERT_TRUE(text.ok()) << text.status();
    const bool ptx = GetParam() == CodeFormat::kPtx;
    EXPECT_THAT(*text, HasSubstr("mbarrier.arrive.shared::cta.b64 _, "));
    EXPECT_EQ(text->find("setmaxnreg.dec.sync.aligned.u32 40;") != std::string::npos, few > 0);
    EXPECT_EQ(text->find("setmaxnreg.inc.sync.aligned.u32 232;") != std::string::npos, few > 0);
    EXPECT_EQ(
        text->find(ptx ? ".minnctapersm 1" : "__launch_bounds__(384, 1)") != std::string::npos,
        few > 0);
    // Both compile the text.
    const auto messages =
        ptx ? tests::PtxMessages(*text, "sm_90a") : tests::CudaMessages(*text, "sm_90a");
    if (tests::MaySkipCompiler(messages.status())) GTEST_SKIP() << messages.status().message();
    ASSERT_TRUE(messages.ok()) << messages.status() << *text;
    EXPECT_THAT(*messages, HasSubstr(" 0 bytes spill stores"));
    EXPECT_EQ(messages->find("setmaxnreg"), std::string::npos) << *messages;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BulkCompileTest,
                         ::testing::Values(CodeFormat::kCudaC, CodeFormat::kPtx),
                         [](const auto& info) {
                           return info.param == CodeFormat::kPtx ? "ptx" : "cuda_c";
                         });

}  // namespace
}  // namespace uopd
