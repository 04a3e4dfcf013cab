// SPDX-License-Identifier: MIT
// Graphs that read a state which memory never has: a STORE that it holds comes after one that it
// lacks.
#include "core/schedule/prepare/forward_states.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::HostArray;

class ForwardStatesTest : public ::testing::Test {
 protected:
  UOp Slot(const ir::Dims& dims) {
    std::vector<double> values;
    for (int64_t i = 0; i < ir::Product(dims); ++i) values.push_back(static_cast<double>(i * i));
    slots_.push_back(HostArray::Of(Dtype::I32, dims, values));
    return ir::Param(ctx_, static_cast<int64_t>(slots_.size()) - 1, Dtype::I32,
                     ir::ShapeArg(ctx_, dims));
  }
  UOp Plus(UOp x, int n) { return ir::Add(ctx_, x, ctx_.Int(Dtype::I32, n)); }
  UOp Part(UOp x, int64_t begin, int64_t size) {
    return ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, ir::Dims{begin}),
                      ir::ShapeArg(ctx_, ir::Dims{size}));
  }
  UOp Read(UOp state) {
    return ir::Store(ctx_, Slot(ir::MaxDims(ctx_, *ctx_.ShapeOf(state))), state);
  }

  // The schedule computes what the graph means, and so does the graph without states.
  void Check(std::vector<UOp> stores) {
    const UOp sink = ir::Sink(ctx_, stores);
    const absl::Status valid = ir::Verify(ctx_, sink, ir::Level::kTensor);
    ASSERT_TRUE(valid.ok()) << StatusText(valid);
    const auto want = test::TensorInterpreter(ctx_).Run(sink, slots_);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    const auto forwarded = ForwardStates(ctx_, ir::Toposort(ctx_, sink));
    ASSERT_TRUE(forwarded.ok()) << StatusText(forwarded.status());
    for (UOp u : ir::Toposort(ctx_, *forwarded)) EXPECT_FALSE(u.Is(Op::AFTER));
    const auto same = test::TensorInterpreter(ctx_).Run(*forwarded, slots_);
    ASSERT_TRUE(same.ok()) << StatusText(same.status());
    const auto schedule = MakeSchedule(ctx_, sink, {});
    ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
    const auto got = test::RunSchedule(*schedule, slots_);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    for (size_t i = 0; i < slots_.size(); ++i) {
      EXPECT_EQ((*same)[i].ToDoubles(), (*want)[i].ToDoubles()) << "slot " << i;
      EXPECT_EQ((*got)[i].ToDoubles(), (*want)[i].ToDoubles()) << "slot " << i;
    }
  }

  ir::UOpContext ctx_;
  std::vector<HostArray> slots_;
};

TEST_F(ForwardStatesTest, AWholeStoreAfterOneThatTheStateLacks) {
  const UOp x = Slot({6});
  const UOp first = ir::Store(ctx_, x, Plus(x, 1));
  const ir::Dims axes = {0};
  const UOp second = ir::Store(ctx_, ir::Flip(ctx_, x, axes), Plus(x, 2));
  Check({first, second, Read(ir::After(ctx_, x, {second}))});
}

TEST_F(ForwardStatesTest, PartsThatOverlap) {
  const UOp x = Slot({6});
  const UOp first = ir::Store(ctx_, Part(x, 0, 4), Part(x, 2, 4));
  const UOp second = ir::Store(ctx_, Part(x, 3, 2), Plus(Part(x, 0, 2), 5));
  const UOp state = ir::After(ctx_, x, {second});
  const UOp third = ir::Store(ctx_, Part(state, 1, 3), Plus(Part(state, 3, 3), 7));
  Check({first, second, third, Read(state), Read(ir::After(ctx_, state, {third})),
         Read(Part(ir::After(ctx_, state, {third}), 2, 3))});
}

TEST_F(ForwardStatesTest, ViewsOfViews) {
  const UOp x = Slot({2, 6});
  const ir::Dims order = {1, 0}, axes = {1};
  const UOp view = ir::Permute(
      ctx_, ir::Reshape(ctx_, ir::Flip(ctx_, x, axes), ir::ShapeArg(ctx_, ir::Dims{3, 4})), order);
  const UOp first = ir::Store(ctx_, x, Plus(x, 1));
  const UOp second = ir::Store(ctx_, view, Plus(view, 2));
  Check({first, second, Read(ir::After(ctx_, view, {second})), Read(ir::After(ctx_, x, {second}))});
}

}  // namespace
}  // namespace uopd::schedule
