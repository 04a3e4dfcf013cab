// SPDX-License-Identifier: MIT
// The width of the stores that products of matrices have in PTX.
#include <gtest/gtest.h>

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/render/renderer.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using ir::Dtype;
using ir::UOp;
using ir::UOpContext;

// How often each kind of store to a buffer is in the text of a 4096 x 4096 product of bf16 with
// these results.
std::map<std::string, int> StoresOfProduct(std::string_view arch, Dtype result) {
  constexpr int64_t kSize = 4096;
  UOpContext ctx;
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(kSize), j = b.Loop(kSize), k = b.Reduced(kSize);
  const auto load = [&](int64_t slot, UOp at) {
    return ir::Cast(ctx, b.Load(b.Buffer(slot, Dtype::BF16, kSize * kSize), at), Dtype::F32);
  };
  const UOp sum = ir::ReduceRanges(
      ctx, ir::Op::ADD, ir::Mul(ctx, load(1, b.At(i, kSize, k)), load(2, b.At(k, kSize, j))),
      std::array<UOp, 1>{k});
  const UOp kernel = b.Kernel({b.StoreLoops(b.Buffer(0, result, kSize * kSize), b.At(i, kSize, j),
                                            ir::Cast(ctx, sum, result), {i, j})});
  Target target = *GpuTarget(arch);
  target.format = CodeFormat::kPtx;
  const auto lowered = codegen::Lower(ctx, kernel, target, {});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  if (!lowered.ok()) return {};
  const auto text = (*render::RendererFor(target.format))
                        ->render({ctx, lowered->linear, lowered->name, lowered->variables, target,
                                  lowered->buffers.size()});
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return {};
  // What lanes exchange is stored as it comes: nothing puts halves together.
  EXPECT_EQ(text->find(", 0x5410"), std::string::npos);
  std::map<std::string, int> out;
  for (size_t at = 0; (at = text->find("st.global", at)) != std::string::npos;) {
    const size_t end = text->find(' ', at);
    ++out[text->substr(at, end - at)];
    at = end;
  }
  return out;
}

// Four lanes that lie next to each other store 32 bytes of a row together: a sector of memory.
TEST(PtxResultStoresTest, QuadsFillSectors) {
  for (const char* arch : {"sm_90a", "sm_80"}) {
    for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::F32}) {
      const auto stores = StoresOfProduct(arch, d);
      ASSERT_EQ(stores.size(), 1u) << arch << " " << Name(d);
      EXPECT_EQ(stores.begin()->first, "st.global.v2.b32") << arch << " " << Name(d);
      EXPECT_GE(stores.begin()->second, 8);
    }
  }
}

}  // namespace
}  // namespace uopd
