// SPDX-License-Identifier: MIT
// Schedules keep to the limits of the devices, and are shared between those with the same limits.
#include "server/engine/compile/schedule/schedule_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/null/null_device.h"
#include "server/engine/compile/schedule/key_explainer.h"
#include "server/engine/compile/schedule/schedule.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using devices::null::NullDevice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

devices::null::NullOptions Null(int index, int threads, int max_buffers = 0) {
  devices::null::NullOptions options;
  options.index = index;
  options.target.threads = threads;
  options.target.max_buffers = max_buffers;
  return options;
}

std::unique_ptr<DeviceSet> DevicesOf(std::initializer_list<devices::null::NullOptions> all) {
  std::vector<std::shared_ptr<devices::Device>> open;
  for (const auto& options : all) open.push_back(NullDevice::Open(options));
  return std::make_unique<DeviceSet>(*devices::Registry::Of(open));
}

// The sum of ten buffers on a device.
ir::UOp SumGraph(ir::UOpContext& ctx, std::string_view device) {
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{64});
  auto param = [&](int64_t slot) { return ir::Param(ctx, slot, ir::Dtype::F32, shape, device); };
  ir::UOp sum = param(1);
  for (int64_t slot = 2; slot <= 10; ++slot) sum = ir::Add(ctx, sum, param(slot));
  const ir::UOp store = ir::Store(ctx, param(0), sum);
  return ir::Sink(ctx, std::span(&store, 1));
}

// One query against many keys: staged, a single thread would do all of it.
ir::UOp DecodeGraph(ir::UOpContext& ctx) {
  uopd::test::GraphBuilder g(ctx);
  g.Output(g.Attention(g.Input({1, 1, 64}), g.Input({1, 4096, 64}), g.Input({1, 4096, 64})));
  return g.Finish();
}

struct Case {
  explicit Case(ir::UOp (*make)(ir::UOpContext&)) : sink(make(ctx)) {}
  explicit Case(std::string_view device) : sink(SumGraph(ctx, device)) {}

  ScheduleTarget TargetOf(DeviceSet& devices) const {
    auto target = ScheduleTargetOf(ctx, sink, devices);
    EXPECT_TRUE(target.ok()) << StatusText(target.status());
    return target.ok() ? *std::move(target) : ScheduleTarget();
  }
  cache::Key KeyOn(DeviceSet& devices) const {
    return ScheduleKey(HashBytes(ir::Encode(ctx, sink)), CoreCompiler(), TargetOf(devices));
  }
  schedule::Schedule On(DeviceSet& devices) {
    auto made = CoreCompiler().MakeSchedule(ctx, sink, TargetOf(devices).options);
    EXPECT_TRUE(made.ok()) << StatusText(made.status());
    return made.ok() ? *std::move(made) : schedule::Schedule();
  }

  ir::UOpContext ctx;
  ir::UOp sink;
};

TEST(ScheduleTargetTest, ADeviceOfOneThreadLosesNoneByStaging) {
  Case one(DecodeGraph), many(DecodeGraph);
  EXPECT_EQ(one.On(*DevicesOf({Null(0, 1)})).items.size(), 1u);
  EXPECT_GT(many.On(*DevicesOf({Null(0, 16)})).items.size(), 1u);
}

TEST(ScheduleTargetTest, KernelsTakeNoMoreBuffersThanTheirDeviceAllows) {
  const auto devices = DevicesOf({Null(0, 1), Null(1, 1, 4)});
  EXPECT_EQ(Case("").On(*devices).items.size(), 1u);
  for (const char* name : {"NULL:1", "null:1"}) {
    const schedule::Schedule s = Case(name).On(*devices);
    EXPECT_GT(s.items.size(), 2u);
    for (const schedule::Item& item : s.items) EXPECT_LE(item.buffers.size(), 4u) << name;
  }
}

TEST(ScheduleTargetTest, TheDefaultDeviceDecidesWhereNoneIsNamed) {
  const schedule::Schedule s = Case("").On(*DevicesOf({Null(0, 1, 4)}));
  for (const schedule::Item& item : s.items) EXPECT_LE(item.buffers.size(), 4u);
}

// More than the scheduler uses anyway makes no difference.
TEST(ScheduleTargetTest, KeysDifferWhereLimitsDo) {
  const Case sum("");
  const cache::Key key = sum.KeyOn(*DevicesOf({Null(0, 1)}));
  EXPECT_THAT(std::string(key.environment()),
              HasSubstr(" default=NULL:0 threads=1 kernel_buffers=32"));
  EXPECT_EQ(sum.KeyOn(*DevicesOf({Null(0, 1, 1000)})).environment(), key.environment());
  for (const devices::null::NullOptions& other : {Null(0, 2), Null(0, 1, 4)}) {
    const cache::Key there = sum.KeyOn(*DevicesOf({other}));
    EXPECT_NE(there.environment(), key.environment());
    EXPECT_EQ(there.semantic(), key.semantic());
  }
}

// What a request allows and what the device has for it. Without permission the key has neither; the
// dtypes that the device multiplies as they are (factors) decide schedules of every request.
TEST(ScheduleTargetTest, AllowedProductsAreInTheKey) {
  devices::null::NullOptions with = Null(0, 1), without = Null(0, 1);
  with.target.matrix_instructions = {
      {"dot", 1, 16, 2, DtypeNumber::BF16, DtypeNumber::BF16, DtypeNumber::F32}};
  const auto text = [](const devices::null::NullOptions& device, const CompileOptions& options) {
    return OnlyScheduleTarget(*DevicesOf({device}), options)->Text();
  };
  const std::string exact = text(with, {});
  EXPECT_THAT(exact, HasSubstr(" factors="));
  EXPECT_NE(exact, text(without, {}));
  EXPECT_EQ(text(with, {.allow_bf16 = true}), exact + " allow=bf16 products=bf16");
  EXPECT_EQ(text(without, {.allow_bf16 = true}), text(without, {}) + " allow=bf16 products=");
  EXPECT_EQ(text(with, {.allow_bf16 = true, .allow_f16 = true}),
            exact + " allow=bf16,f16 products=bf16");
  EXPECT_EQ(text(without, {.allow_tf32 = true}), text(without, {}) + " allow=tf32 products=");
  devices::null::NullOptions tensor = Null(0, 1);
  tensor.target.matrix_instructions = {
      {"mma", 16, 8, 8, DtypeNumber::TF32, DtypeNumber::TF32, DtypeNumber::F32}};
  EXPECT_EQ(text(tensor, {.allow_tf32 = true}), text(tensor, {}) + " allow=tf32 products=tf32");
  EXPECT_EQ(OnlyScheduleTarget(*DevicesOf({with}), {.allow_f16 = true})->options.allowed_products,
            DtypeNumberSet{DtypeNumber::F16});
}

TEST(ScheduleTargetTest, DevicesThatTheGraphDoesNotNameAreNotInItsKey) {
  const auto alone = DevicesOf({Null(0, 1)}), among = DevicesOf({Null(0, 1), Null(1, 2, 4)}),
             alike = DevicesOf({Null(0, 1), Null(1, 1)});
  const Case here(""), there("NULL:1");
  EXPECT_EQ(here.KeyOn(*among).environment(), here.KeyOn(*alone).environment());
  EXPECT_EQ(OnlyScheduleTarget(*alone)->Text(), here.TargetOf(*among).Text());
  EXPECT_THAT(there.TargetOf(*among).Text(),
              HasSubstr(" NULL:1.threads=2 NULL:1.kernel_buffers=4"));
  EXPECT_EQ(there.TargetOf(*alike).Text(), here.TargetOf(*alone).Text());
  EXPECT_EQ(Case("null:1").TargetOf(*among).Text(), there.TargetOf(*among).Text());
}

// Two daemons on one store, whose devices have the same name.
TEST(ScheduleTargetTest, OtherLimitsAreAMissAndExplained) {
  const auto wide = DevicesOf({Null(0, 1)}), narrow = DevicesOf({Null(0, 1, 4)});
  cache::Store store(1 << 20);
  FakeCompiler graph_compiler;
  TaskPool task_pool(2, SIZE_MAX);
  ir::UOpContext ctx;
  const std::string graph = ir::Encode(ctx, SumGraph(ctx, ""));
  auto prepare = [&](DeviceSet& devices, size_t most) {
    CompileService service({.lease = {.owner = "test"}, .repro_folder = "", .limits = {}},
                           graph_compiler, store, devices, task_pool);
    RequestContext request;
    const auto made = WaitForProgram(service, request, {"", graph}, {});
    EXPECT_TRUE(made.ok()) << StatusText(made.status());
    if (made.ok()) {
      for (const auto& step : (*made)->Get()->steps) EXPECT_LE(step.buffers.size(), most);
    }
    return request.cache.schedule;
  };
  EXPECT_EQ(prepare(*wide, 32), CacheResult::kMiss);
  RequestContext request;
  request.caller.sees_all = true;
  const auto explained =
      KeyExplainer(graph_compiler, store, *narrow, {}).Explain(request, {"", graph}, {});
  ASSERT_TRUE(explained.ok()) << StatusText(explained.status());
  EXPECT_FALSE(explained->cached);
  std::vector<std::string> fields;
  for (const ir::Difference& d : explained->differences) fields.push_back(d.field);
  EXPECT_THAT(fields, ElementsAre("kernel_buffers"));
  const auto allowed = KeyExplainer(graph_compiler, store, *wide, {})
                           .Explain(request, {"", graph}, {}, {.allow_bf16 = true});
  ASSERT_TRUE(allowed.ok()) << StatusText(allowed.status());
  EXPECT_FALSE(allowed->cached);
  fields.clear();
  for (const ir::Difference& d : allowed->differences) fields.push_back(d.field);
  EXPECT_THAT(fields, ElementsAre("allow", "products"));
  EXPECT_EQ(prepare(*narrow, 4), CacheResult::kMiss);
  EXPECT_EQ(prepare(*wide, 32), CacheResult::kDisk);
  EXPECT_EQ(prepare(*narrow, 4), CacheResult::kDisk);
  EXPECT_EQ(graph_compiler.schedules, 2);
}

// Named, though it will not open: the plan says so, not the key.
TEST(ScheduleTargetTest, UnknownDevicesCountAsTheDefault) {
  const auto devices = DevicesOf({Null(0, 1), Null(1, 2)});
  EXPECT_EQ(Case("NULL:7").TargetOf(*devices).Text(), Case("").TargetOf(*devices).Text());
  EXPECT_EQ(Case("nonsense").TargetOf(*devices).Text(), Case("").TargetOf(*devices).Text());
}

}  // namespace
}  // namespace uopd::engine
