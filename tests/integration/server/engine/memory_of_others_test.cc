// SPDX-License-Identifier: MIT
// No byte leaves the daemon that was not written for its reader. Memory from the pools holds what
// others left; here it holds a pattern, and two sessions that make the same calls get another
// pattern each. All that they are told must be the same: a byte that nobody wrote for them would
// differ.
//
// The calls: random graphs, with sizes that are variables, partial stores, copies between devices;
// slots that share buffers, new and old ones; data for whole slots and for parts; uploads with
// gaps; runs that are cancelled before, between and after their steps; repeated request ids;
// downloads. UOPD_FUZZ_LEAKS sets how many graphs for each device, UOPD_FUZZ_SEED the first one,
// UOPD_FUZZ_DEVICE a device of this machine, for which there is the case "Named" then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "cache/store.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "devices/cuda/cuda_device.h"
#include "devices/hip/hip_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/engine.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/environment.h"
#include "tests/support/graph_generator.h"
#include "tests/support/hip/fake_hip.h"
#include "tests/support/hip/interpreted_kernels.h"
#include "tests/support/pocl.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

// Before the program has threads.
[[maybe_unused]] const bool kUsesPocl = tests::UsePocl();

constexpr std::string_view kNamed = "Named";
constexpr unsigned char kPatterns[] = {0x35, 0x4a};
std::atomic<unsigned char> pattern;  // of the memory that is taken now

// One call of a session.
struct Act {
  enum Kind : uint8_t { kUpload, kWrite, kRead, kFree, kRun };
  Kind kind = kRun;
  uint64_t handle = 0, offset = 0;
  std::string device;
  std::string data;  // kRead: as many bytes
  // kRun
  std::vector<Argument> arguments;
  std::vector<std::string> argument_data;  // by slot
  std::vector<int64_t> variables;
  std::vector<uint64_t> freed;
  uint64_t request_id = 0;
  int cancel_at = -1;  // the look of the run at which it is not wanted any more; -1: none
};

// Copies between two devices of a kind, of fixed and of variable sizes, of whole slots and of
// parts. No kernel is needed for them, so the fakes of the drivers can do them.
test::GeneratedGraph CopyGraph(ir::UOpContext& ctx, std::string_view kind, uint64_t seed) {
  const std::string first = Cat(kind, ":0"), second = Cat(kind, ":1");
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  test::GeneratedGraph out;
  const ir::UOp n = ir::Variable(ctx, "n", 0, 5);
  out.variables["n"] = 3;
  std::vector<ir::UOp> stores;
  const auto slot = [&](const ir::SymbolicDims& dims, bool other) {
    const auto number = static_cast<int64_t>(out.slots.size());
    out.slots.push_back(test::HostArray::Zeros(ir::Dtype::I32, ir::MaxDims(ctx, ir::Shape(dims))));
    return ir::Param(ctx, number, ir::Dtype::I32, ir::ShapeArg(ctx, ir::Shape(dims)),
                     other ? second : first);
  };
  for (int64_t i = 1 + pick(3); i > 0; --i) {
    ir::SymbolicDims dims = {ctx.Idx(2 + pick(3)), ctx.Idx(1 + pick(4))};
    if (pick(3) > 0) dims[static_cast<size_t>(pick(2))] = n;
    const bool other = pick(2) == 0;
    ir::UOp x = slot(dims, other);
    if (ir::StaticDims(ir::Shape(dims)) && pick(2) == 0) {  // the last row
      const ir::UOp last = ctx.Idx(dims[0].const_int() - 1);
      dims[0] = ctx.Idx(1);
      x = ir::Shrink(ctx, x, ir::ShapeArg(ctx, ir::Shape(ir::SymbolicDims{last, ctx.Idx(0)})),
                     ir::ShapeArg(ctx, ir::Shape(dims)));
    }
    x = ctx.Make(ir::Op::COPY, x.dtype(), {x}, ctx.Data({}, other ? first : second));
    stores.push_back(ir::Store(ctx, slot(dims, !other), x));
  }
  out.sink = ir::Sink(ctx, stores);
  return out;
}

// Chooses the calls for one graph.
class Director {
 public:
  Director(const test::GeneratedGraph& graph, const ir::UOpContext& ctx, uint64_t seed)
      : graph_(graph), random_(seed) {
    devices_.resize(graph.slots.size());
    for (ir::UOp u : ir::Toposort(ctx, graph.sink)) {
      if (u.Is(ir::Op::PARAM)) devices_[static_cast<size_t>(u.slot())] = std::string(u.text());
      if (u.Is(ir::Op::DEFINE_VAR)) bounds_.emplace_back(u.ints()[0], u.ints()[1]);
    }
  }

  std::vector<Act> Choose(int runs) {
    std::vector<Act> out;
    for (int run = 0; run < runs; ++run) {
      for (int i = Pick(3); i > 0; --i) out.push_back(BufferAct());
      out.push_back(Run());
    }
    // In the end everything that there is.
    for (size_t i = 0; i < graph_.slots.size(); ++i) {
      for (uint64_t n = 0; n < kHandlesOfASize; ++n) out.push_back(Read(GroupOf(i) + n));
    }
    return out;
  }

 private:
  static constexpr uint64_t kHandlesOfASize = 3;

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  // Slots of one size on one device have the same handles, so that most calls are valid.
  uint64_t GroupOf(size_t slot) const {
    size_t first = 0;
    while (Bytes(first) != Bytes(slot) || devices_[first] != devices_[slot]) ++first;
    return 1 + first * kHandlesOfASize;
  }
  uint64_t HandleFor(size_t slot) {
    if (Pick(20) == 0) slot = Slot();  // perhaps of another size
    return GroupOf(slot) + random_() % kHandlesOfASize;
  }
  size_t Slot() { return random_() % graph_.slots.size(); }
  int64_t Bytes(size_t slot) const {
    const auto& a = graph_.slots[slot];
    return ir::Product(a.dims) * ir::ByteSize(a.dtype);
  }
  // Small integers in the dtype of the slot.
  std::string Data(size_t slot) {
    test::HostArray a = graph_.slots[slot];
    std::vector<double> values(a.values.size());
    for (double& v : values) v = Pick(7) - 3;
    return test::HostArray::Of(a.dtype, a.dims, values).ToBytes();
  }

  Act BufferAct() {
    const size_t slot = Slot();
    Act out{.handle = HandleFor(slot), .device = devices_[slot], .data = Data(slot)};
    switch (Pick(5)) {
      case 0:
        out.kind = Act::kFree;
        break;
      case 1:
        return Read(out.handle);
      case 2: {
        out.kind = Act::kWrite;
        out.offset = static_cast<uint64_t>(Pick(static_cast<int>(out.data.size()) + 1));
        out.data.resize(static_cast<size_t>(Pick(static_cast<int>(out.data.size()) + 1)));
        break;
      }
      default:
        out.kind = Act::kUpload;
    }
    return out;
  }
  Act Read(uint64_t handle) {
    return {.kind = Act::kRead, .handle = handle, .data = std::string(1, '\0')};
  }

  Act Run() {
    Act out;
    const size_t slots = graph_.slots.size();
    out.arguments.resize(slots);
    out.argument_data.resize(slots);
    for (const auto& [low, high] : bounds_) {
      const int what = Pick(3);
      const auto span = static_cast<uint64_t>(high - low) + 1;
      out.variables.push_back(what == 0   ? low
                              : what == 1 ? high
                                          : low + static_cast<int64_t>(random_() % span));
    }
    const bool shares = Pick(3) == 0;  // many slots have the first handle of their size
    for (size_t i = 0; i < slots; ++i) {
      Argument& argument = out.arguments[i];
      const int what = Pick(4);
      if (what > 0) argument.buffer = shares && Pick(2) ? GroupOf(i) : HandleFor(i);
      if (graph_.slots[i].values.empty()) continue;
      if (what == 0 || Pick(3) == 0) {
        out.argument_data[i] = Data(i);
        if (!bounds_.empty() && Pick(2) == 0)
          out.argument_data[i].resize(static_cast<size_t>(Pick(static_cast<int>(Bytes(i)) + 1)));
        argument.data = "";  // Act::Arguments points it to the bytes
      }
      argument.return_data = Pick(2) == 0;
    }
    if (Pick(8) == 0) out.freed = {HandleFor(Slot())};
    if (Pick(3) == 0) out.request_id = static_cast<uint64_t>(1 + Pick(4));
    if (Pick(4) == 0) out.cancel_at = Pick(4);
    return out;
  }

  const test::GeneratedGraph& graph_;
  std::mt19937_64 random_;
  std::vector<std::string> devices_;                 // by slot
  std::vector<std::pair<int64_t, int64_t>> bounds_;  // of the variables, in their order
};

class MemoryOfOthersTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string device =
        GetParam() == kNamed ? test::NamedDevice(/*otherwise=*/"") : GetParam();
    if (const std::string why = tests::WhyNoOpenCl(); device == "CL" && !why.empty()) {
      GTEST_SKIP() << why;
    }
    Config config;
    ASSERT_TRUE(config.ResolveDefaults().ok());
    devices::RegistryOptions options = TestDevices();
    options.devices = device == "CPU" ? "CPU,CPU:1" : device;
    options.memory_limit_bytes = 256 << 20;
    options.cpu_threads = 2;
    options.memory_pattern = [] { return std::byte{pattern.load()}; };
    if (device == "CUDA") {
      options.devices = "CUDA,CUDA:1";
      options.open = [this, pattern = options.memory_pattern](const devices::DeviceName& name) {
        return devices::cuda::CudaDevice::Open({.index = name.index,
                                                .memory_limit_bytes = size_t{64} << 20,
                                                .pattern = pattern,
                                                .ptx = true,
                                                .driver = driver_.get(),
                                                .ptxc = "/nowhere/uopd-ptxc"});
      };
    }
    if (device == "AMD") {
      options.devices = "AMD,AMD:1";
      options.open = [this, pattern = options.memory_pattern](const devices::DeviceName& name) {
        return devices::hip::HipDevice::Open(
            {.index = name.index,
             .memory_limit_bytes = size_t{64} << 20,
             .pattern = pattern,
             .driver = &tests::FakeHip::LastingDriver(),
             .maybe_compiler = kernels_,
             .maybe_target = tests::InterpretedKernels::TargetOfDevices()});
      };
    }
    engine_ = *Engine::Create(config, std::make_unique<CoreCompiler>(),
                              std::make_unique<cache::Store>(64 << 20),
                              *devices::Registry::Create(options), nullptr);
  }

  // What the session is told.
  std::string Do(Session& session, const std::string& graph, const Act& act) {
    switch (act.kind) {
      case Act::kUpload: {
        const auto made =
            engine_->buffers().OpenUpload(session, act.handle, act.data.size(), act.device);
        return made.status().ToString();
      }
      case Act::kWrite:
        return engine_->buffers().Write(session, act.handle, act.offset, act.data).ToString();
      case Act::kRead:
        return ReadAll(session, act.handle);
      case Act::kFree:
        session.buffers().Free(std::span(&act.handle, 1));
        return "";
      case Act::kRun:
        return Run(session, graph, act);
    }
    return "?";
  }

  std::string ReadAll(Session& session, uint64_t handle) {
    const auto buffer = session.buffers().Find(handle);
    if (buffer == nullptr) return "none";
    std::string out(buffer->size(), '?');
    const absl::Status status = engine_->buffers().Read(session, handle, 0, std::span(out));
    return status.ok() ? out : status.ToString();
  }

  std::string Run(Session& session, const std::string& graph, const Act& act) {
    std::vector<Argument> arguments = act.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].data) arguments[i].data = act.argument_data[i];
    }
    // Only the looks of the thread that runs the steps count: those of the watch come at any time.
    const auto me = std::this_thread::get_id();
    auto looks = std::make_shared<int>(0);
    RequestContext request;
    if (act.cancel_at >= 0) {
      request.cancelled = [me, looks, at = act.cancel_at] {
        return std::this_thread::get_id() == me && (*looks)++ >= at;
      };
    }
    ExecuteCall call;
    call.where = ExecuteCall::Where::kHere;
    call.wanted = engine_->programs().Resolve({"", graph}, {});
    call.request_id = act.request_id;
    call.run = {arguments, act.variables, act.freed};
    const auto result = Await<absl::StatusOr<ExecuteResult>>(
        [&](auto done) { engine_->runs().Execute(request, session, call, std::move(done)); });
    if (!result.ok()) return result.status().ToString();
    ++ran_;
    std::string out;
    for (const std::string& data : result->data) {
      out += data;
      returned_ += data.size();
    }
    return out;
  }

  tests::FakeCuda cuda_;
  tests::FakeHip hip_{cuda_};
  const std::shared_ptr<tests::InterpretedKernels> kernels_ =
      std::make_shared<tests::InterpretedKernels>(cuda_);
  const std::unique_ptr<devices::cuda::CudaDriver> driver_ =
      devices::cuda::CudaDriver::Create(cuda_.Api()).value();
  std::unique_ptr<Engine> engine_;
  int ran_ = 0;          // runs without an error
  size_t returned_ = 0;  // bytes
};

TEST_P(MemoryOfOthersTest, NeverLeavesTheDaemon) {
  const std::string_view device = GetParam();
  const bool copies = device == "CUDA";
  const int usual = device == "INTERP" ? 300
                    : device == "AMD"  ? 100
                    : copies           ? 60
                    : device == "CPU"  ? 40
                                       : 8;  // by what compiling costs
  const auto graphs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_LEAKS", usual));
  const auto start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  const bool two_devices = engine_->devices().size() > 1;
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const auto number = static_cast<uint64_t>(seed);
    const test::GeneratedGraph g =
        copies ? CopyGraph(ctx, device, number)
               : test::GenerateGraph(ctx, number,
                                     {.ops = 3 + seed % 20,
                                      .symbolic = seed % 3 != 0,
                                      .devices = two_devices && seed % 2 == 0,
                                      .kind = device == "AMD" ? "AMD" : "CPU"});
    const std::string graph = ir::Encode(ctx, g.sink);
    const std::vector<Act> acts = Director(g, ctx, static_cast<uint64_t>(seed)).Choose(6);
    // The first run compiles, so looks of a run are those of its steps only.
    RequestContext request;
    const auto prepared = Await<absl::StatusOr<std::shared_ptr<const Program>>>([&](auto done) {
      engine_->programs().Prepare(request, engine_->programs().Resolve({"", graph}, {}),
                                  std::move(done));
    });
    ASSERT_TRUE(prepared.ok()) << StatusText(prepared.status()) << ir::Print(ctx, g.sink);
    std::vector<std::string> told[2];
    for (const size_t side : {0, 1}) {
      pattern = kPatterns[side];
      const SessionUse session = *engine_->sessions().Open(std::chrono::minutes(1), {});
      for (const Act& act : acts) told[side].push_back(Do(*session, graph, act));
      ASSERT_TRUE(engine_->sessions().Close(session->id(), "").ok());
    }
    for (size_t i = 0; i < acts.size(); ++i) {
      ASSERT_EQ(told[0][i].size(), told[1][i].size())
          << "call " << i << " (" << int{acts[i].kind} << "): " << told[0][i].substr(0, 300) << "\n"
          << told[1][i].substr(0, 300);
      const auto at = std::ranges::mismatch(told[0][i], told[1][i]).in1 - told[0][i].begin();
      ASSERT_TRUE(told[0][i] == told[1][i])
          << "call " << i << " (" << int{acts[i].kind} << ") byte " << at << " of "
          << told[0][i].size() << ": " << int{static_cast<unsigned char>(told[0][i][size_t(at)])}
          << " and " << int{static_cast<unsigned char>(told[1][i][size_t(at)])} << "\n"
          << ir::Print(ctx, g.sink);
    }
  }
  EXPECT_THAT(kernels_->Failures(), testing::IsEmpty());
  std::printf("%d runs returned %zu bytes\n", ran_, returned_);
  if (graphs < 20) return;
  EXPECT_GT(ran_, graphs);
  EXPECT_GT(returned_, static_cast<size_t>(graphs) * 50);
}

std::vector<const char*> Devices() {
  std::vector<const char*> out = {"CPU", "INTERP", "CL", "CUDA", "AMD"};
  if (!test::NamedDevice("").empty()) out.push_back(kNamed.data());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Device, MemoryOfOthersTest, testing::ValuesIn(Devices()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace uopd::engine
