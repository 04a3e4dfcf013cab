// SPDX-License-Identifier: MIT
// Which devices share kernels: the keys of many kernels for processors that differ in one fact,
// compared with the objects that the compiler makes for them.
#include "server/engine/compile/kernel/kernel_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/text.h"
#include "devices/cpu/cpu_compiler.h"
#include "devices/null/null_device.h"
#include "server/engine/base/code_key.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/support/model_graphs.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kV2[] = "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+popcnt";
constexpr char kV3[] =
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+popcnt";

Target TargetOf(const char* features, int threads) {
  Target target = devices::cpu::Describe(devices::cpu::MakeCpuTarget(features), threads);
  target.caches = {{32 << 10, 2}, {1 << 20, 2}, {32 << 20, 16}};
  return target;
}

// One kernel on one device: its key and its object.
struct Made {
  cache::Key choice, kernel;
  KernelSource source;
  std::string object;
};

class LoweringMachine {
 public:
  LoweringMachine(Target target, const char* features)
      : target_(target),
        device_(devices::null::NullDevice::Open({.target = std::move(target)})),
        compiler_(*devices::cpu::CpuCompiler::Create(devices::cpu::MakeCpuTarget(features))) {}

  const Target& target() const { return target_; }
  // Not compiled yet.
  absl::StatusOr<Made> Lower(const std::string& graph, bool draft = false) const {
    PhaseTimings timings;
    UOPD_ASSIGN(KernelSource source, graph_compiler_.LowerKernel(graph, *device_, {}, nullptr,
                                                                 draft, &timings, nullptr));
    const KernelStores& stores = draft ? kDraftStores : kOptimisedStores;
    const Digest id = HashBytes(graph), digest = source.digest();
    return Made{ChoiceKey(stores, id, graph_compiler_.ChoiceEnvironment(*device_, {})),
                KernelKey(stores, id, target_, digest), std::move(source), ""};
  }
  void Compile(Made& made) const {
    auto object = compiler_->Compile(made.source.text);
    EXPECT_TRUE(object.ok()) << object.status();
    made.object = object.ok() ? *object : "";
  }

 private:
  const Target target_;
  const std::shared_ptr<devices::Device> device_;
  const std::unique_ptr<devices::cpu::CpuCompiler> compiler_;
  const CoreCompiler graph_compiler_;
};

// The kernels of products, convolutions, reductions and attention.
const std::set<std::string>& KernelGraphs() {
  static const auto& kernels = *[] {
    auto* out = new std::set<std::string>;
    const auto add = [&](auto&& build) {
      ir::UOpContext ctx;
      const auto schedule = schedule::MakeSchedule(ctx, build(ctx), {});
      if (!schedule.ok()) return;
      for (const schedule::Item& item : schedule->items) {
        if (item.kind == schedule::Item::kKernel) out->insert(item.graph);
      }
    };
    add([](auto& ctx) { return test::TransformerGraph(ctx, 1, 16, 32, 2); });
    add([](auto& ctx) { return test::TransformerGraph(ctx, 1, 256, 512, 8); });
    add([](auto& ctx) { return test::ResNetGraph(ctx, 1, 1, 8, 8); });
    add([](auto& ctx) { return test::ResNetGraph(ctx, 1, 8, 64, 28); });
    add([](auto& ctx) { return test::AdamGraph(ctx, 1, 16, 16); });
    for (const int64_t n : {8, 12, 20, 24, 40, 64, 384}) {
      add([&](auto& ctx) {
        test::GraphBuilder g(ctx);
        g.Output(g.MatMul(g.Input({n, n}), g.Input({n, n})));
        g.Output(g.Softmax(g.Input({4 * n, n})));
        g.Output(g.Sum(g.Input({n, n, 16}), {0, 2}));
        return g.Finish();
      });
    }
    return out;
  }();
  return kernels;
}

// Lowers all kernels for both machines. Whoever has equal keys must have equal objects.
struct Compared {
  int equal = 0, different = 0;
};
Compared Compare(const LoweringMachine& a, const LoweringMachine& b) {
  Compared out;
  for (const std::string& graph : KernelGraphs()) {
    auto x = a.Lower(graph), y = b.Lower(graph);
    EXPECT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
    if (!x.ok() || !y.ok()) continue;
    const bool equal = x->kernel.address() == y->kernel.address();
    ++(equal ? out.equal : out.different);
    if (!equal) continue;
    EXPECT_EQ(x->source.text, y->source.text);
    EXPECT_EQ(x->source.record.Encode(), y->source.record.Encode());
    a.Compile(*x);
    b.Compile(*y);
    EXPECT_EQ(x->object, y->object) << x->source.record.name;
  }
  return out;
}

TEST(KernelKeysTest, ADeviceWithOtherThreadsSharesTheKernelsWithEqualCode) {
  const LoweringMachine two(TargetOf(kV3, 2), kV3), six(TargetOf(kV3, 6), kV3);
  const Compared compared = Compare(two, six);
  EXPECT_GE(compared.equal, 20) << "of " << compared.equal + compared.different;
  EXPECT_GE(compared.different, 3) << "large kernels are divided among the threads";
}

// As a virtual machine shows it, or as the processors of another half of the chip see it.
TEST(KernelKeysTest, ADeviceWithAnotherSharingOfTheLastCacheSharesAllKernels) {
  Target other = TargetOf(kV3, 2);
  other.caches.back().shared_by = 1;
  const LoweringMachine one(TargetOf(kV3, 2), kV3), two(other, kV3);
  EXPECT_NE(one.target().Key(), two.target().Key());
  EXPECT_EQ(Compare(one, two).different, 0);
}

TEST(KernelKeysTest, ADeviceWithOtherCachesSharesTheKernelsWithEqualCode) {
  Target other = TargetOf(kV3, 2);
  other.caches = {{48 << 10, 1}, {256 << 10, 1}, {8 << 20, 2}};
  EXPECT_GE(Compare(LoweringMachine(TargetOf(kV3, 2), kV3), LoweringMachine(other, kV3)).equal, 20);
}

TEST(KernelKeysTest, DevicesWithOtherInstructionsShareNothing) {
  const LoweringMachine v2(TargetOf(kV2, 2), kV2), v3(TargetOf(kV3, 2), kV3);
  EXPECT_EQ(Compare(v2, v3).equal, 0);
  // Also where the text is the same.
  const Target plain = TargetOf(kV3, 2);
  for (const auto change : {0, 1, 2, 3, 4}) {
    Target changed = plain;
    if (change == 0) changed.features += ",+avx512f";
    if (change == 1) changed.toolchain += ";llvm-20";
    if (change == 2) changed.arch = "aarch64";
    if (change == 3) changed.kind = "opencl";
    if (change == 4) changed.format = CodeFormat::kC;
    const Digest same = HashBytes("the same");
    EXPECT_NE(KernelKey(kOptimisedStores, same, changed, same).address(),
              KernelKey(kOptimisedStores, same, plain, same).address())
        << change;
  }
}

TEST(KernelKeysTest, TheChoiceDependsOnEveryFact) {
  const std::string& graph = *KernelGraphs().begin();
  const auto two = LoweringMachine(TargetOf(kV3, 2), kV3).Lower(graph);
  const auto six = LoweringMachine(TargetOf(kV3, 6), kV3).Lower(graph);
  EXPECT_NE(two->choice.address(), six->choice.address());
  EXPECT_THAT(two->choice.environment(), HasSubstr("threads=2"));
  EXPECT_THAT(two->kernel.environment(), Not(HasSubstr("threads=")));
  EXPECT_THAT(two->kernel.environment(), HasSubstr("avx2"));
  const auto draft = LoweringMachine(TargetOf(kV3, 2), kV3).Lower(graph, true);
  EXPECT_NE(two->choice.address(), draft->choice.address());
  EXPECT_NE(two->kernel.address(), draft->kernel.address());
}

TEST(KernelKeysTest, WhatALaunchNeedsIsPartOfTheSource) {
  KernelSource source;
  source.text = "text";
  const Digest digest = source.digest();
  EXPECT_EQ(source.digest(), digest);
  KernelSource other = source;
  other.record.name = "k";
  EXPECT_NE(other.digest(), digest);
  other = source;
  other.record.launch.grid[0] = codegen::LaunchSize(7);
  EXPECT_NE(other.digest(), digest);
  other = source;
  other.record.polls = true;
  EXPECT_NE(other.digest(), digest);
  other = source;
  other.text = "texts";
  EXPECT_NE(other.digest(), digest);
}

TEST(KernelKeysTest, AChoiceIsADigest) {
  const Digest source = HashBytes("source");
  EXPECT_EQ(DecodeChoice(EncodeChoice(source)), source);
  EXPECT_EQ(DecodeChoice(""), std::nullopt);
  EXPECT_EQ(DecodeChoice(EncodeChoice(source) + "x"), std::nullopt);
}

}  // namespace
}  // namespace uopd::engine
