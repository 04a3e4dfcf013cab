// SPDX-License-Identifier: MIT
// Whole schedules of random graphs, with kernels as codegen makes them, on the CPU device and its
// threads, against the tensor interpreter. Each kernel runs optimised and as a draft, which must
// give the same bits. UOPD_FUZZ_RUN_GRAPHS sets how many, UOPD_FUZZ_SEED the first.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opts/opt.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/render/formats.h"
#include "core/schedule/prepare/round_products.h"
#include "devices/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/support/environment.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"
#include "tests/support/repeated_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd {
namespace {

using test::HostArray;

class ScheduleRun : public ::testing::Test {
 protected:
  absl::Status RunKernel(ir::UOpContext& ctx, ir::UOp sink, tests::Memory& memory,
                         const test::Variables& variables) {
    tests::Memory by_draft = memory;
    UOPD_TRY(RunTier(ctx, sink, /*draft=*/false, memory, variables));
    UOPD_TRY(RunTier(ctx, sink, /*draft=*/true, by_draft, variables));
    if (by_draft == memory) return absl::OkStatus();
    std::string opts;
    for (const bool draft : {false, true}) {
      UOPD_ASSIGN(const codegen::LoweredKernel k,
                  codegen::Lower(ctx, sink, TargetOf(), {.draft = draft}));
      for (const codegen::Opt& opt : k.opts) Append(opts, " ", codegen::Text(opt));
      Append(opts, draft ? "\n" : " and");
    }
    return absl::InternalError(
        Cat("the draft computes something else:", opts, ir::Print(ctx, sink)));
  }
  Target TargetOf() const {
    Target out;
    if (own_target_) out = device_->target();
    out.threads = 3;
    out.shared_bytes = device_->target().shared_bytes;
    return out;
  }
  absl::Status RunTier(ir::UOpContext& ctx, ir::UOp sink, bool draft, tests::Memory& memory,
                       const test::Variables& variables) {
    UOPD_ASSIGN(const codegen::LoweredKernel k,
                codegen::Lower(ctx, sink, TargetOf(), {.draft = draft}));
    UOPD_ASSIGN(const std::string text, render::RenderLlvmIr(ctx, k.linear, k.name, k.variables));
    return Launch(k, text, draft, memory, variables);
  }
  absl::Status Launch(const codegen::LoweredKernel& k, const std::string& text, bool draft,
                      tests::Memory& memory, const test::Variables& variables) {
    if (executables_.size() >= kMostLoaded) executables_.clear();
    auto& executable = executables_[{text, draft}];
    if (executable == nullptr) {
      const devices::Compiler& compiler = device_->compiler();
      UOPD_ASSIGN(const std::string object,
                  draft ? compiler.CompileDraft(text) : compiler.Compile(text));
      UOPD_ASSIGN(
          executable,
          device_->Load({CodeFormat::kObject,
                         k.name,
                         object,
                         {static_cast<int>(memory.size()), static_cast<int>(k.variables.size())}}));
    }
    std::vector<std::shared_ptr<devices::Buffer>> buffers;
    std::vector<devices::BufferArg> args;
    for (const auto& m : memory) {
      buffers.push_back(device_->Allocate(m.size(), devices::MemoryKind::kDevice).value());
      UOPD_TRY(stream_->CopyIn(std::as_bytes(std::span(m)), *buffers.back(), 0));
      args.push_back({buffers.back().get(), 0});
    }
    std::vector<int64_t> vars;
    for (const auto& v : k.variables) vars.push_back(variables.at(v));
    const LaunchShape shape = {
        {k.launch.grid[0].Evaluate(vars), 1, 1}, {1, 1, 1}, k.launch.shared_bytes};
    UOPD_TRY(stream_->Launch(*executable, shape, args, vars));
    for (size_t i = 0; i < memory.size(); ++i)
      UOPD_TRY(stream_->CopyOut(*buffers[i], 0, std::as_writable_bytes(std::span(memory[i]))));
    return stream_->Synchronize();
  }

  // Slots after the run.
  absl::StatusOr<std::vector<HostArray>> Run(const schedule::Schedule& s,
                                             const std::vector<HostArray>& slots,
                                             const test::Variables& variables = {}) {
    return test::RunSchedule(s, slots, variables,
                             [this](auto& ctx, ir::UOp sink, auto& memory, const auto& v) {
                               return RunKernel(ctx, sink, memory, v);
                             });
  }

  // Values from 1/16 to 11/16; integers 0.
  static std::vector<HostArray> SlotsOf(const schedule::Schedule& s) {
    std::vector<HostArray> slots;
    for (const schedule::Slot& slot : s.slots) {
      const ir::Dims dims(slot.dims.begin(), slot.dims.end());
      std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>((i * 7 + slots.size() * 3) % 11 + 1) / 16;
      slots.push_back(HostArray::Of(slot.dtype, dims, values));
    }
    return slots;
  }

  // `tolerance`: of the largest value of the slot.
  static void ExpectNear(const std::vector<HostArray>& got, const std::vector<HostArray>& want,
                         double tolerance) {
    for (size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> a = got[i].ToDoubles(), b = want[i].ToDoubles();
      double largest = 1e-6;
      for (double v : b) largest = std::max(largest, std::abs(v));
      for (size_t at = 0; at < a.size(); ++at)
        ASSERT_NEAR(a[at], b[at], tolerance * largest) << "slot " << i << " element " << at;
    }
  }

  // A loaded kernel takes several entries of the process's table of mappings (vm.max_map_count).
  static constexpr size_t kMostLoaded = 4096;

  bool own_target_ = false;  // kernels for this processor, and not for any
  std::shared_ptr<devices::cpu::CpuDevice> device_ =
      devices::cpu::CpuDevice::Open({.threads = 3}).value();
  std::unique_ptr<devices::Stream> stream_ = device_->NewStream().value();
  std::map<std::pair<std::string, bool>, std::shared_ptr<devices::Executable>> executables_;
};

TEST_F(ScheduleRun, RandomGraphs) {
  const auto graphs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_RUN_GRAPHS", 100)),
             start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::UOpContext ctx;
    const test::GeneratedGraph g = test::GenerateGraph(
        ctx, static_cast<uint64_t>(seed),
        {.ops = 4 + seed % 40, .symbolic = seed % 4 == 1, .devices = seed % 5 == 2});
    const auto schedule = schedule::MakeSchedule(ctx, g.sink, {});
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
    for (const test::GeneratedGraph& v : test::WithOtherVariables(ctx, g)) {
      const auto want = test::TensorInterpreter(ctx).Run(v.sink, v.slots, v.variables);
      ASSERT_TRUE(want.ok()) << StatusText(want.status());
      const auto got = Run(*schedule, v.slots, v.variables);
      ASSERT_TRUE(got.ok()) << StatusText(got.status()) << ir::Print(ctx, g.sink);
      for (size_t i = 0; i < want->size(); ++i) {
        const std::vector<double> a = (*got)[i].ToDoubles(), b = (*want)[i].ToDoubles();
        for (size_t at : v.visible[i]) {
          if (std::isnan(a[at]) && std::isnan(b[at])) continue;
          ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at << "\n"
                                  << ir::Print(ctx, g.sink);
        }
      }
    }
  }
}

// Products of rounded operands (round_products.h): what codegen makes of the casts, in kernels of
// their own and inside of products, for odd sizes, padding, NaN and infinity.
TEST_F(ScheduleRun, RoundedProducts) {
  using Build = std::function<void(test::GraphBuilder&)>;
  const auto product = [](int64_t m, int64_t k, int64_t n) -> Build {
    return [=](test::GraphBuilder& g) {
      g.Output(g.MatMul(g.Input({m, k}), g.Input({k, n})));
      g.Output(g.MatMul(g.Transpose(g.Input({k, m})), g.Transpose(g.Input({n, k}))));
    };
  };
  const std::vector<Build> graphs = {
      product(2, 1, 1),
      product(3, 0, 5),
      product(7, 33, 130),
      product(130, 65, 66),
      product(1, 200, 77),
      [](auto& g) { g.Output(g.Conv2d(g.Input({2, 3, 11, 9}), g.Input({5, 3, 3, 3}), 1)); },
      [](auto& g) { g.Output(g.Conv2d(g.Input({1, 70, 9, 9}), g.Input({67, 70, 1, 1}), 0)); },
      [](auto& g) {
        const ir::UOp q = g.Input({3, 20, 18}), k = g.Input({3, 20, 18});
        g.Output(g.Attention(q, k, g.Input({3, 20, 18})));
      },
      [](auto& g) {
        const ir::UOp hidden = g.Relu(g.MatMul(g.Input({65, 40}), g.Input({40, 70})));
        g.Output(g.MatMul(hidden, g.Input({70, 9})));
        g.Output(hidden);
      },
  };
  for (const DtypeNumber dtype : {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32}) {
    schedule::Options options;
    options.allowed_products = {dtype};
    options.limits.product_dtypes = {dtype};
    for (size_t n = 0; n < graphs.size(); ++n) {
      SCOPED_TRACE(::testing::Message() << Name(dtype) << " graph " << n);
      ir::UOpContext ctx;
      test::GraphBuilder g(ctx);
      graphs[n](g);
      const ir::UOp sink = g.Finish();
      const auto schedule = schedule::MakeSchedule(ctx, sink, options);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      std::vector<HostArray> slots = SlotsOf(*schedule);
      for (HostArray& slot : slots) {
        for (ir::Scalar& v : slot.values) v = ir::Scalar::Float(slot.dtype, v.f / 1.1);
      }
      const ir::UOp made = schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), options);
      ASSERT_NE(made, sink);
      const auto want = test::TensorInterpreter(ctx).Run(made, slots);
      ASSERT_TRUE(want.ok()) << want.status();
      const auto got = Run(*schedule, slots);
      ASSERT_TRUE(got.ok()) << got.status();
      // A value between two products may be rounded to a neighbour: its sum has another order.
      const bool chained = n + 2 >= graphs.size();
      ExpectNear(*got, *want, chained ? 1e-3 : 2e-6);
    }
  }
}

// Heads put side by side by the STORE itself, of which the keys may be shared; causal.
ir::UOp SideBySide(ir::UOpContext& ctx, int64_t heads, int64_t groups, int64_t queries) {
  test::GraphBuilder g(ctx);
  const int64_t keys = 13, depth = 10;
  auto shared = [&] {
    const ir::UOp k = g.Input({2, groups, 1, keys, depth});
    const ir::Dims all = {2, groups, heads / groups, keys, depth};
    return g.Reshape(ir::Expand(ctx, k, ir::ShapeArg(ctx, all)), {2, heads, keys, depth});
  };
  ir::UOp scores = g.MatMul(g.Input({2, heads, queries, depth}), g.Transpose(shared()));
  const ir::UOp shape = ir::ShapeArg(ctx, ir::Dims{queries, keys});
  const ir::UOp row = ir::Iota(ctx, ir::Dtype::I32, shape, 0),
                column = ir::Iota(ctx, ir::Dtype::I32, shape, 1);
  scores = ir::Where(ctx, ir::Lt(ctx, ir::Add(ctx, row, ctx.Int(ir::Dtype::I32, 2)), column),
                     g.Const(scores, -INFINITY), scores);
  const ir::UOp out = g.Permute(g.MatMul(g.Softmax(scores), shared()), {0, 2, 1, 3});
  g.Output(g.Reshape(out, {2, queries, heads * depth}));
  return g.Finish();
}

// Graphs that would be one kernel of many loops or instructions are several, which compile and give
// the same.
TEST_F(ScheduleRun, LongGraphs) {
  const std::pair<std::string_view, int> cases[] = {
      {"small_products", 40}, {"products_of_one", 40}, {"softmaxes", 40},
      {"integer_rounds", 60}, {"prefix_sums", 40},     {"sines", 240},
      {"choices", 2000},      {"additions", 6000},     {"casts", 1200}};
  for (const test::Repeated& graph : test::RepeatedGraphs()) {
    const auto found = std::ranges::find(cases, graph.name, [](const auto& c) { return c.first; });
    if (found == std::end(cases)) continue;
    SCOPED_TRACE(graph.name);
    ir::UOpContext ctx;
    const ir::UOp sink = graph.build(ctx, found->second);
    const auto schedule = schedule::MakeSchedule(ctx, sink, {});
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
    EXPECT_GT(schedule->items.size(), 1u);
    const std::vector<HostArray> slots = SlotsOf(*schedule);
    const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
    ASSERT_TRUE(want.ok());
    const auto got = Run(*schedule, slots);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    ExpectNear(*got, *want, 2e-3);
  }
}

// Sums of values that are rounded, of random sizes that have every kind of tile: draft and
// optimised kernel must have the same bits. RunKernel compares them.
TEST_F(ScheduleRun, DraftsOfSumsHaveTheSameBits) {
  const auto graphs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_DRAFT_SUMS", 24)),
             start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  for (int seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto up_to = [&](int64_t n) {
      return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    own_target_ = up_to(2) == 1;
    schedule::Options options;
    options.limits = schedule::KernelLimits::Of(TargetOf());
    constexpr DtypeNumber kRounded[] = {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32};
    if (up_to(3) == 1) options.allowed_products = {kRounded[up_to(3) - 1]};
    constexpr ir::Dtype kDtypes[] = {ir::Dtype::F32, ir::Dtype::F64, ir::Dtype::BF16,
                                     ir::Dtype::F16, ir::Dtype::F32, ir::Dtype::F32};
    const ir::Dtype dtype = kDtypes[up_to(6) - 1];
    ir::UOpContext ctx;
    test::GraphBuilder g(ctx);
    const auto input = [&](const ir::Dims& dims) { return g.Input(dims, dtype); };
    const int64_t n = up_to(70), m = up_to(70), k = up_to(150), side = 3 + up_to(16),
                  window = std::min<int64_t>(side, 2 * up_to(3) - 1);
    switch (seed % 8) {
      case 0:
        g.Output(g.MatMul(input({m, k}), input({k, n})));
        break;
      case 1:
        g.Output(g.MatMul(input({m, k}), g.Transpose(input({n, k}))));
        break;
      case 2:
        g.Output(g.LayerNorm(g.MatMul(g.Transpose(input({k, m})), input({k, n}))));
        break;
      case 3:
        g.Output(g.Conv2d(input({up_to(2), k, side, side}), input({n, k, 1, 1}), 0));
        break;
      case 4: {
        const int64_t channels = up_to(40);
        g.Output(g.Relu(g.Conv2d(input({up_to(2), channels, side, side}),
                                 input({n, channels, window, window}), window / 2)));
        break;
      }
      case 5:
        g.Output(g.DepthwiseConv2d(input({up_to(2), n, side, side}), input({n, 1, window, window}),
                                   up_to(2) - 1));
        break;
      case 6:
        g.Output(g.Attention(input({up_to(3), m, n}), input({1, k, n}), input({1, k, n})));
        break;
      default: {
        // Several reduced axes.
        const ir::UOp x = input({m, up_to(12), k, up_to(9)});
        g.Output(g.Sum(x, up_to(2) == 1 ? ir::Dims{1, 2} : ir::Dims{1, 3}));
        g.Output(g.Softmax(x));
      }
    }
    const auto schedule = schedule::MakeSchedule(ctx, g.Finish(), options);
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
    std::vector<HostArray> slots = SlotsOf(*schedule);
    std::normal_distribution<double> normal;
    for (HostArray& slot : slots) {
      for (ir::Scalar& v : slot.values) v = ir::Scalar::Float(slot.dtype, normal(random));
    }
    const auto got = Run(*schedule, slots);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
  }
}

// In f32: sums are rounded in another order.
TEST_F(ScheduleRun, Networks) {
  for (int kind = 0; kind < 6; ++kind) {
    SCOPED_TRACE(::testing::Message() << "network " << kind);
    ir::UOpContext ctx;
    const ir::UOp sink = kind == 0   ? test::TransformerGraph(ctx, 1, 12, 16, 2)
                         : kind == 1 ? test::ResNetGraph(ctx, 1, 2, 3, 6)
                         : kind == 2 ? test::AdamGraph(ctx, 3, 9, 21)
                         : kind == 3 ? SideBySide(ctx, 6, 6, 16)
                         : kind == 4 ? SideBySide(ctx, 6, 2, 17)
                                     : SideBySide(ctx, 5, 1, 1);
    const auto schedule = schedule::MakeSchedule(ctx, sink, {});
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
    if (kind >= 3) {
      EXPECT_EQ(schedule->items.size(), 1u);
    }
    const std::vector<HostArray> slots = SlotsOf(*schedule);
    const auto want = test::TensorInterpreter(ctx).Run(sink, slots);
    ASSERT_TRUE(want.ok());
    const auto got = Run(*schedule, slots);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    ExpectNear(*got, *want, 2e-4);
  }
}

}  // namespace
}  // namespace uopd
