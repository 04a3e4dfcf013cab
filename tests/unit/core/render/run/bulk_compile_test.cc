// SPDX-License-Identifier: MIT
// Kernels with BULK_COPYs are accepted by the compilers of CUDA C and of PTX, and do in machine code what the lines say.

#include "core/base/target/gpu_targets.h"
#include "core/ir/verify/spec.h"
#include "core/render/renderer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/bulk_ring.h"
#include "tests/support/gpu/compilers.h"

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

INSTANTIATE_TEST_SUITE_P(All, BulkCompileTest,
                         ::testing::Values(CodeFormat::kCudaC, CodeFormat::kPtx),
                         [](const auto& info) {
                           return info.param == CodeFormat::kPtx ? "ptx" : "cuda_c";
                         });

}  // namespace
}  // namespace uopd
