// SPDX-License-Identifier: MIT
// Divided programs that compute the same, nearly the same, and something else, on the CPU device.
#include "server/engine/kept/kept_make.h"

#include <gtest/gtest.h>

#include "cache/store.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ir::UOp;
using uopd::test::GraphBuilder;

constexpr int64_t kProductRows = 8, kProductTerms = 64, kProductColumns = 32;
enum : size_t { kMadeX, kMadeW, kMadeY, kMadeKeptW, kMadeSlots };

devices::RegistryOptions CpuOptions() {
  devices::RegistryOptions options = TestDevices();
  options.devices = "CPU";
  options.memory_limit_bytes = 64 << 20;
  options.cpu_threads = 2;
  return options;
}

class KeptMakeTest : public testing::Test {
 protected:
  using Build = std::function<UOp(GraphBuilder&, UOp x, UOp w)>;

  // y = build(x, w) with the weights in slot `w`.
  std::shared_ptr<const Program> Compile(size_t w_slot, const Build& build) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const auto param = [&](size_t slot, int64_t rows, int64_t columns) {
      return ir::Param(ctx, static_cast<int64_t>(slot), ir::Dtype::F32,
                       ir::ShapeArg(ctx, ir::Dims{rows, columns}));
    };
    const UOp y = build(g, param(kMadeX, kProductRows, kProductTerms),
                        param(w_slot, kProductTerms, kProductColumns));
    const UOp store = ir::Store(ctx, param(kMadeY, kProductRows, kProductColumns), y);
    return Compile(ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1))));
  }
  std::shared_ptr<const Program> Prologue() {
    ir::UOpContext ctx;
    const UOp shape = ir::ShapeArg(ctx, ir::Dims{kProductTerms, kProductColumns});
    const UOp store = ir::Store(ctx, ir::Param(ctx, kMadeKeptW, ir::Dtype::F32, shape),
                                ir::Param(ctx, kMadeW, ir::Dtype::F32, shape));
    return Compile(ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1))));
  }
  std::shared_ptr<const Program> Compile(const std::string& graph) {
    RequestContext request;
    const auto handle = WaitForProgram(service_, request, {"", graph}, {});
    EXPECT_TRUE(handle.ok()) << StatusText(handle.status());
    return (*handle)->Get();
  }
  std::shared_ptr<devices::Buffer> Memory() {
    auto buffer = (*devices_.Get(""))
                      ->device()
                      .Allocate(kProductTerms * kProductColumns * 4, devices::MemoryKind::kDevice)
                      .value();
    std::vector<float> values(kProductTerms * kProductColumns);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37) / 16 - 1;
    std::memcpy(buffer->host_data(), values.data(), buffer->size());
    return buffer;
  }
  KeptMake::Outcome Make(const Build& undivided, const Build& main,
                         std::span<const ProbeKind> probes = kProbes) {
    KeptMake make;
    make.undivided = Compile(kMadeW, undivided);
    make.prologue = Prologue();
    make.main = Compile(kMadeKeptW, main);
    make.first_slot = kMadeKeptW;
    make.stable = {nullptr, Memory()};
    kept_ = Memory();
    std::memset(kept_->host_data(), 0, kept_->size());
    make.take_values = [this] { return std::vector{kept_}; };
    make.probes = probes;
    make.quota = quota_;
    make.cancelled = cancelled_;
    std::memcpy(make.stable[1]->host_data(), Memory()->host_data(), kept_->size());
    const auto outcome = Await<KeptMake::Outcome>(
        [&](auto done) { StartKeptMake(std::move(make), watch_, task_pool_, std::move(done)); });
    EXPECT_EQ(quota_->used(), 0);
    return outcome;
  }
  static UOp Product(GraphBuilder& g, UOp x, UOp w) { return g.MatMul(x, w); }
  // The product of x and w as two products, each over one half of the terms, that are added.
  static UOp Halves(GraphBuilder& g, UOp x, UOp w) {
    constexpr int64_t kHalf = kProductTerms / 2;
    const auto half = [&](int64_t from) {
      return g.MatMul(g.Contiguous(g.Shrink(x, {0, from}, {kProductRows, kHalf})),
                      g.Contiguous(g.Shrink(w, {from, 0}, {kHalf, kProductColumns})));
    };
    return ir::Add(g.ctx(), g.Contiguous(half(0)), g.Contiguous(half(kHalf)));
  }

  CoreCompiler graph_compiler_;
  cache::Store store_{16 << 20};
  DeviceSet devices_{*devices::Registry::Create(CpuOptions())};
  TaskPool task_pool_{2, SIZE_MAX};
  CompileService service_{{}, graph_compiler_, store_, devices_, task_pool_};
  RunWatch watch_;
  std::shared_ptr<Quota> quota_ = std::make_shared<Quota>("limits.session_bytes", 16 << 20);
  std::function<bool()> cancelled_;
  std::shared_ptr<devices::Buffer> kept_;
};

TEST_F(KeptMakeTest, EqualProgramsPassAndTheValuesAreThere) {
  EXPECT_EQ(Make(Product, Product), KeptMake::Outcome::kSame);
  EXPECT_EQ(std::memcmp(kept_->host_data(), Memory()->host_data(), kept_->size()), 0);
}

TEST_F(KeptMakeTest, AnotherOrderOfTheTermsDoesNot) {
  EXPECT_EQ(Make(Product, Halves), KeptMake::Outcome::kDiffers);
  EXPECT_EQ(Make(Product, Halves, kOneProbe), KeptMake::Outcome::kDiffers);
  EXPECT_EQ(Make(Halves, Halves), KeptMake::Outcome::kSame);
}

TEST_F(KeptMakeTest, DenormalsThatBecomeZeroDoNot) {
  const Build flushes = [](GraphBuilder& g, UOp x, UOp w) {
    ir::UOpContext& ctx = g.ctx();
    const UOp y = g.MatMul(x, w), least = ctx.Float(ir::Dtype::F32, 0x1p-126);
    const UOp small = ir::And(ctx, ir::Alu(ctx, ir::Op::CMPLT, {y, least}),
                              ir::Alu(ctx, ir::Op::CMPLT, {ir::Alu(ctx, ir::Op::NEG, {y}), least}));
    return ir::Where(ctx, small, ctx.Float(ir::Dtype::F32, 0), y);
  };
  EXPECT_EQ(Make(Product, flushes), KeptMake::Outcome::kDiffers);
  EXPECT_EQ(Make(Product, flushes, kOneProbe), KeptMake::Outcome::kDiffers);
}

TEST_F(KeptMakeTest, WhatWasCheckedIsNotCheckedAgain) {
  EXPECT_EQ(Make(Product, Halves, {}), KeptMake::Outcome::kSame);
  EXPECT_EQ(std::memcmp(kept_->host_data(), Memory()->host_data(), kept_->size()), 0);
}

TEST_F(KeptMakeTest, WithoutMemoryOrACallerNothingIsKnown) {
  quota_->set_limit(1000);
  EXPECT_EQ(Make(Product, Product), KeptMake::Outcome::kFailed);
  quota_->set_limit(16 << 20);
  cancelled_ = [] { return true; };
  EXPECT_EQ(Make(Product, Product), KeptMake::Outcome::kFailed);
}

}  // namespace
}  // namespace uopd::engine
