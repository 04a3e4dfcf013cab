// SPDX-License-Identifier: MIT
// Programs on several devices: each device works by itself, and waits for another one only where
// data crosses. The results are those of one device.
#include <gtest/gtest.h>

#include <thread>

#include "devices/null/null_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/run/run_service.h"
#include "tests/support/eventually.h"
#include "tests/support/sharded_graph.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

constexpr int64_t kShardSize = 4;

struct ShardBuilder {
  ir::UOpContext ctx;
  std::vector<ir::UOp> stores;

  ir::UOp Param(int64_t slot, const char* device) {
    const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{kShardSize});
    return ir::Param(ctx, slot, ir::Dtype::F32, shape, device);
  }
  ir::UOp Twice(ir::UOp x) { return ir::Mul(ctx, x, ctx.Float(ir::Dtype::F32, 2)); }
  ir::UOp To(ir::UOp x, const char* device) {
    return ctx.Make(ir::Op::COPY, x.dtype(), {x}, ctx.Data(std::span<const int64_t>(), device));
  }
  void Store(int64_t slot, const char* device, ir::UOp value) {
    stores.push_back(ir::Store(ctx, Param(slot, device), value));
  }
  std::string Graph() { return ir::Encode(ctx, ir::Sink(ctx, stores)); }
};

// Slots 0 and 2 are twice slots 1 and 3, on a device each.
std::string IndependentShards() {
  ShardBuilder b;
  b.Store(0, "NULL:0", b.Twice(b.Param(1, "NULL:0")));
  b.Store(2, "NULL:1", b.Twice(b.Param(3, "NULL:1")));
  return b.Graph();
}

// Slot 2 on the second device needs what the first device computes.
std::string CrossingShards() {
  ShardBuilder b;
  const ir::UOp x = b.Twice(b.Param(1, "NULL:0"));
  b.Store(0, "NULL:0", x);
  b.Store(2, "NULL:1", b.Twice(b.To(x, "NULL:1")));
  return b.Graph();
}

// NULL:0 and NULL:1, which work late and in the background.
class ParallelDevicesTest : public testing::Test {
 protected:
  int64_t launches(const char* name) {
    return dynamic_cast<devices::null::NullDevice&>((*devices_.Get(name))->device()).launches();
  }
  // Starts the run while the device is busy until `gate` opens.
  std::future<absl::Status> StartBehind(const std::shared_ptr<devices::Semaphore>& gate,
                                        const char* busy, const std::string& graph, size_t slots) {
    RequestContext request;
    auto handle = WaitForProgram(service_, request, {"", graph}, {});
    EXPECT_TRUE(handle.ok()) << StatusText(handle.status());
    auto lease = *StreamLease::Take(**devices_.Get(busy));
    EXPECT_TRUE(lease->Wait(gate, 1).ok());
    lease.GiveBack();
    arguments_.resize(slots);
    for (size_t i = 1; i < slots; i += 2) arguments_[i].data = data_;
    auto status = std::make_shared<std::promise<absl::Status>>();
    StartRun({request_, (*handle)->Get(), buffers_, {arguments_, {}, {}}, {}, watch_, task_pool_},
             [status](absl::StatusOr<ExecuteResult> r) { status->set_value(r.status()); });
    return status->get_future();
  }

  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry({.force_async_us = 20})};
  TaskPool task_pool_{1, SIZE_MAX};
  CompileService service_{{}, graph_compiler_, store_, devices_, task_pool_};
  Quota quota_{"limits.session_bytes", 1 << 20};
  BufferStore buffers_{quota_};
  RunWatch watch_;
  RequestContext request_;
  const std::string data_ = std::string(16, 'x');
  std::vector<Argument> arguments_;
};

TEST_F(ParallelDevicesTest, ShardsThatShareNothingDoNotWaitForEachOther) {
  for (const auto& [busy, other] : {std::pair("NULL:0", "NULL:1"), std::pair("NULL:1", "NULL:0")}) {
    const int64_t busy_before = launches(busy), other_before = launches(other);
    const auto gate = std::make_shared<devices::Semaphore>();
    auto ended = StartBehind(gate, busy, IndependentShards(), 4);
    EXPECT_TRUE(test::Eventually([&] { return launches(other) == other_before + 1; })) << other;
    EXPECT_EQ(launches(busy), busy_before);
    EXPECT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    gate->Signal(1);
    EXPECT_EQ(ended.get(), absl::OkStatus());
    EXPECT_EQ(launches(busy), busy_before + 1);
  }
}

TEST_F(ParallelDevicesTest, DataThatCrossIsWaitedFor) {
  const auto gate = std::make_shared<devices::Semaphore>();
  auto ended = StartBehind(gate, "NULL:0", CrossingShards(), 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(launches("NULL:0"), 0);
  EXPECT_EQ(launches("NULL:1"), 0);
  gate->Signal(1);
  EXPECT_EQ(ended.get(), absl::OkStatus());
  EXPECT_GE(launches("NULL:0"), 1);
  EXPECT_GE(launches("NULL:1"), 1);
}

// Random graphs, in pieces on two to four CPU devices that work late, compute what they do on one.
TEST(ParallelShardsTest, AgreeWithOneDevice) {
  CoreCompiler graph_compiler;
  cache::Store store(16 << 20);
  DeviceSet devices(*devices::Registry::Create({.devices = "CPU:0,CPU:1,CPU:2,CPU:3",
                                                .memory_limit_bytes = 64 << 20,
                                                .cpu_threads = 1,
                                                .force_async_us = 50}));
  TaskPool task_pool(1, SIZE_MAX);
  CompileService service({}, graph_compiler, store, devices, task_pool);
  Quota quota("limits.session_bytes", 64 << 20);
  RunWatch watch;
  size_t most_devices = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const auto g = test::GenerateGraph(ctx, seed, {.ops = 8});
    const auto want = test::TensorInterpreter(ctx).Run(g.sink, g.slots);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    const auto sharded = test::ShardGraph(ctx, g, seed, 2 + static_cast<int>(seed % 3));
    const std::string graph = ir::Encode(ctx, sharded.sink);
    RequestContext request;
    auto handle = WaitForProgram(service, request, {"", graph}, {});
    ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
    const auto program = (*handle)->Get();
    most_devices = std::max(most_devices, program->devices.size());
    std::vector<std::string> data;
    for (const test::HostArray& slot : sharded.slots) data.push_back(slot.ToBytes());
    std::vector<Argument> arguments(program->slots.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!program->slots[i].info.used) continue;
      arguments[i].data = data[i];
      arguments[i].return_data = true;
    }
    BufferStore buffers(quota);
    const auto result = Await<absl::StatusOr<ExecuteResult>>([&](auto done) {
      StartRun({request, program, buffers, {arguments, {}, {}}, {}, watch, task_pool}, done);
    });
    ASSERT_TRUE(result.ok()) << StatusText(result.status());
    std::vector<test::HostArray> ran = sharded.slots;
    auto bytes = result->data.begin();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].return_data) continue;
      ran[i] = test::HostArray::FromBytes(ran[i].dtype, ran[i].dims, *bytes++);
    }
    const auto got = test::JoinSlots(g, sharded, ran);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    for (size_t i = 0; i < want->size(); ++i) {
      if ((*got)[i].values.empty()) continue;  // not used by the graph
      const std::vector<double> a = (*got)[i].ToDoubles(), b = (*want)[i].ToDoubles();
      for (size_t at : g.visible[i]) ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at;
    }
  }
  EXPECT_GE(most_devices, 3u);
}

}  // namespace
}  // namespace uopd::engine
