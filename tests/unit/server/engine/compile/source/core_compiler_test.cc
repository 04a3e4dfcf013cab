// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/core_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "devices/null/null_device.h"
#include "server/engine/base/code_key.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

std::shared_ptr<devices::Device> DeviceOf(Target target, int index = 0) {
  return devices::null::NullDevice::Open({.index = index, .target = std::move(target)});
}

class CoreCompilerTest : public testing::Test {
 protected:
  CoreCompilerTest() {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(64, 2), ir::Level::kTensor);
    graph_ = graph_compiler_.MakeSchedule(ctx, *sink, {})->items.at(0).graph;
  }
  absl::StatusOr<KernelSource> Lower(const CompileOptions& options = {}, const Opts* opts = nullptr,
                                     Interrupt* maybe_interrupt = nullptr) {
    timings_ = {};
    return graph_compiler_.LowerKernel(graph_, *device_, options, opts, /*draft=*/false, &timings_,
                                       maybe_interrupt);
  }

  const CoreCompiler graph_compiler_;
  std::shared_ptr<devices::Device> device_ = DeviceOf(devices::null::NullTarget());
  std::string graph_;
  PhaseTimings timings_;
};

TEST_F(CoreCompilerTest, AKernelGraphBecomesTextAndAllThatALaunchNeeds) {
  const auto source = Lower();
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->text, HasSubstr(source->record.name));
  EXPECT_EQ(source->record.object, "") << "that is the device's compiler's";
  ASSERT_EQ(source->record.buffers.size(), 2u);
  EXPECT_TRUE(source->record.buffers[0].written);
  EXPECT_TRUE(source->record.buffers[1].read);
  EXPECT_EQ(source->record.buffers[1].elements, 64);
  EXPECT_TRUE(source->record.variables.empty());
  EXPECT_GE(source->record.flops, 64);
  EXPECT_GT(timings_[Phase::kCodegen], 0);
  EXPECT_GT(timings_[Phase::kRender], 0);
}

TEST_F(CoreCompilerTest, TheSameKernelHasTheSameText) {
  EXPECT_EQ(Lower()->text, Lower()->text);
  EXPECT_EQ(Lower()->record.Encode(), Lower()->record.Encode());
}

TEST_F(CoreCompilerTest, ExplainsWhatItCompiled) {
  const auto compiled = Lower();
  ASSERT_TRUE(compiled.ok());
  EXPECT_FALSE(compiled->record.opts.empty());
  EXPECT_EQ(compiled->record.dtype, DtypeNumber::F32);
  Interrupt never({});
  const auto text =
      graph_compiler_.ExplainKernel(graph_, *device_, {}, &compiled->record.opts, &never);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->source, compiled->text);
  EXPECT_THAT(text->lines, HasSubstr("LINEAR"));
  EXPECT_THAT(text->graph, HasSubstr("SINK"));
  Interrupt over({.deadline = Interrupt::Clock::now()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      graph_compiler_.ExplainKernel(graph_, *device_, {}, nullptr, &over).status()));
}

TEST_F(CoreCompilerTest, OptsReplaceTheHeuristicsChoice) {
  const Opts none, upcast = {{codegen::OptKind::kUpcast, 0, 4}};
  EXPECT_EQ(Lower({}, &none)->text, Lower({.noopt = true})->text);
  EXPECT_NE(Lower({}, &upcast)->text, Lower({}, &none)->text);
}

TEST_F(CoreCompilerTest, OptsThatDoNotApplyAreInvalid) {
  const Opts opts = {{codegen::OptKind::kUpcast, 9, 4}};
  EXPECT_TRUE(absl::IsInvalidArgument(Lower({}, &opts).status()));
}

TEST_F(CoreCompilerTest, AnInterruptEndsIt) {
  Interrupt interrupt({.cancelled = [] { return true; }});
  EXPECT_TRUE(absl::IsCancelled(Lower({}, nullptr, &interrupt).status()));
  Interrupt late({.deadline = Interrupt::Clock::now()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Lower({}, nullptr, &late).status()));
}

TEST_F(CoreCompilerTest, ADeviceWhoseFormatHasNoRendererIsUnimplemented) {
  Target target = devices::null::NullTarget();
  target.format = CodeFormat::kObject;
  device_ = DeviceOf(target);
  EXPECT_TRUE(absl::IsUnimplemented(Lower().status()));
}

TEST_F(CoreCompilerTest, AScheduleIsThatOfTheCore) {
  const auto make = [](const auto& by) {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(4, 2), ir::Level::kTensor);
    return by(ctx, *sink)->Encode();
  };
  EXPECT_EQ(
      make([&](auto& ctx, ir::UOp sink) { return graph_compiler_.MakeSchedule(ctx, sink, {}); }),
      make([](auto& ctx, ir::UOp sink) { return schedule::MakeSchedule(ctx, sink, {}); }));
}

// Equal devices share choices.
TEST_F(CoreCompilerTest, TheEnvironmentOfAChoiceDoesNotNameTheDevice) {
  const auto other = DeviceOf(devices::null::NullTarget(), 3);
  EXPECT_NE(device_->info().name, other->info().name);
  EXPECT_EQ(graph_compiler_.ChoiceEnvironment(*device_, {}),
            graph_compiler_.ChoiceEnvironment(*other, {}));
}

TEST_F(CoreCompilerTest, WhatDecidesTheSourceIsInTheEnvironmentOfAChoice) {
  const std::string environment = graph_compiler_.ChoiceEnvironment(*device_, {});
  EXPECT_THAT(environment, HasSubstr(HashBytes(CodeEnvironment(device_->target())).Hex()));
  EXPECT_NE(graph_compiler_.ChoiceEnvironment(*device_, {.noopt = true}), environment);
  EXPECT_NE(graph_compiler_.ChoiceEnvironment(*device_, {.fast_math = true}), environment);
  Target wider = devices::null::NullTarget();
  wider.vector_bytes *= 2;
  EXPECT_NE(graph_compiler_.ChoiceEnvironment(*DeviceOf(wider), {}), environment);
  // How a kernel is tuned and cached decides no code: opts are named by who asks with them.
  EXPECT_EQ(graph_compiler_.ChoiceEnvironment(
                *device_, {.beam = 4, .ignore_beam_cache = true, .cache_level = 1}),
            environment);
}

TEST_F(CoreCompilerTest, TheEnvironmentOfASchedule) {
  EXPECT_EQ(graph_compiler_.ScheduleEnvironment(), Cat("schedule=", schedule::kScheduleVersion));
  EXPECT_THAT(graph_compiler_.ScheduleEnvironment(), Not(HasSubstr("codegen")));
}

}  // namespace
}  // namespace uopd::engine
