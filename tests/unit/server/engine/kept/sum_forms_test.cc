// SPDX-License-Identifier: MIT
// Programs of one kernel with opts of our choice: which of them add up in the same order?
#include "server/engine/kept/sum_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/codegen/opts/opt.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SumFormsTest : public testing::Test {
 protected:
  using Build = std::function<void(uopd::test::GraphBuilder&)>;

  SumFormsTest() {
    devices::RegistryOptions options;
    options.devices = "CPU";
    devices_ = std::make_unique<DeviceSet>(*devices::Registry::Create(options));
  }
  // One kernel for each list of opts, over the same graph.
  Program Of(const Build& build, std::initializer_list<const char*> opts) {
    ir::UOpContext ctx;
    uopd::test::GraphBuilder g(ctx);
    build(g);
    const auto schedule = schedule::MakeSchedule(ctx, g.Finish(), {});
    EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
    EXPECT_EQ(schedule->items.size(), 1u);
    Program out;
    for (const char* list : opts) {
      auto kernel = std::make_shared<Kernel>();
      kernel->device = *devices_->Get("CPU");
      kernel->graph = schedule->items[0].graph;
      kernel->opts = *codegen::ParseOpts(list);
      out.steps.emplace_back().kernel = std::move(kernel);
    }
    return out;
  }
  std::string Compare(const Build& a, const char* opts_a, const Build& b, const char* opts_b) {
    const Program one = Of(a, {opts_a}), other = Of(b, {opts_b});
    const Program* const parts[] = {&other};
    return DifferentSums(one, parts);
  }
  static void Product(uopd::test::GraphBuilder& g) {
    g.Output(g.MatMul(g.Input({32, 64}), g.Input({64, 32})));
  }
  static void Sum(uopd::test::GraphBuilder& g) { g.Output(g.Sum(g.Input({32, 64}), {1})); }

  std::unique_ptr<DeviceSet> devices_;
};

// Axis 2 is the sum.
TEST_F(SumFormsTest, TilesChangeNoOrder) {
  for (const char* opts : {"VECTOR(1, 8)", "VECTOR(1, 8) UPCAST(0, 4)", "UPCAST(0, 8) UNROLL(2, 2)",
                           "UPCAST(0, 8) UNROLL(2, 0)", "UNROLL(2, 0)",
                           "VECTOR(1, 8) UPCAST(0, 8) UNROLL(2, 4) PACK(1)", "THREAD(0, 2)"})
    EXPECT_THAT(Compare(Product, "", Product, opts), IsEmpty()) << opts;
}

TEST_F(SumFormsTest, LanesAndAccumulatorsOfTermsDo) {
  for (const char* opts :
       {"VECTOR(2, 8)", "UNROLL(2, 2)", "UPCAST(0, 4) UNROLL(2, 2)", "BLOCK(1, 4) BLOCK(2, 8)"}) {
    EXPECT_THAT(Compare(Product, "", Product, opts), HasSubstr("of 64 f32 products has the forms"))
        << opts;
    EXPECT_THAT(Compare(Product, opts, Product, opts), IsEmpty()) << opts;
  }
  EXPECT_THAT(Compare(Product, "VECTOR(2, 8)", Product, "VECTOR(2, 4)"), HasSubstr("VECTOR8"));
}

TEST_F(SumFormsTest, KindsAreNotMixedUp) {
  EXPECT_THAT(Compare(Product, "", Sum, ""), HasSubstr("is in one of them only"));
  EXPECT_THAT(Compare(Sum, "", Sum, ""), IsEmpty());
}

TEST_F(SumFormsTest, IntegersMayBeAddedInAnyOrder) {
  const Build integers = [](uopd::test::GraphBuilder& g) {
    g.Output(g.Sum(g.Input({32, 64}, ir::Dtype::I32), {1}));
  };
  EXPECT_THAT(Compare(integers, "", integers, "VECTOR(1, 8)"), IsEmpty());
}

// Two kernels of one kind: which of them is which cannot be known.
TEST_F(SumFormsTest, OneKindHasOneForm) {
  const Program two = Of(Sum, {"", "VECTOR(1, 8)"});
  const Program* const parts[] = {&two};
  EXPECT_THAT(DifferentSums(two, parts), HasSubstr("has the forms"));
}

}  // namespace
}  // namespace uopd::engine
