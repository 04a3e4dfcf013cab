// SPDX-License-Identifier: MIT
#include "client/cpp/graph/normalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"

namespace uopd::client {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ::testing::ElementsAre;

class NormalizeTest : public ::testing::Test {
 protected:
  UOp Buffer(int64_t handle) {
    return ir::Buffer(ctx_, handle, Dtype::F32, ir::ShapeArg(ctx_, Dims{4}), ir::AddrSpace::GLOBAL,
                      "CPU:0");
  }
  NormalForm Form(std::vector<Output> outputs) {
    auto form = Normalize(ctx_, outputs);
    EXPECT_TRUE(form.ok()) << form.status();
    const absl::Status s = ir::Verify(ctx_, form->sink, ir::Level::kTensor);
    EXPECT_TRUE(s.ok()) << s << ir::Print(ctx_, form->sink);
    return *std::move(form);
  }
  ir::UOpContext ctx_;
};

TEST_F(NormalizeTest, SlotsFollowTheFirstEncounter) {
  const NormalForm f =
      Form({{ir::Add(ctx_, Buffer(70), ir::Mul(ctx_, Buffer(30), Buffer(70))), Buffer(99)}});
  EXPECT_THAT(f.buffers, ElementsAre(70, 30, 99));
  const NormalForm g =
      Form({{ir::Add(ctx_, Buffer(1), ir::Mul(ctx_, Buffer(2), Buffer(1))), Buffer(3)}});
  EXPECT_EQ(f.sink, g.sink) << "handles are not part of the graph";
  EXPECT_THAT(g.buffers, ElementsAre(1, 2, 3));
}

TEST_F(NormalizeTest, TagsGo) {
  const UOp tagged = ctx_.Make(Op::CONTIGUOUS, Dtype::F32, {Buffer(1)}, {}, 17);
  for (UOp u : ir::Toposort(ctx_, Form({{tagged, Buffer(2)}}).sink)) EXPECT_EQ(u.tag(), 0);
}

TEST_F(NormalizeTest, ValuesOfVariablesGo) {
  const UOp n = ir::Variable(ctx_, "n", 0, 9);
  auto with = [&](int64_t v) {
    const UOp bound = ctx_.Make(Op::BIND, Dtype::Index, {n, ctx_.Idx(v)});
    return Form({{ir::Add(ctx_, Buffer(1), ir::Cast(ctx_, bound, Dtype::F32)), Buffer(2)}});
  };
  const NormalForm three = with(3), five = with(5);
  EXPECT_EQ(three.sink, five.sink);
  EXPECT_THAT(three.variables, ElementsAre(3));
  EXPECT_THAT(five.variables, ElementsAre(5));
}

TEST_F(NormalizeTest, ReplacedValuesAreReadBack) {
  const UOp w = Buffer(1), next = ir::Mul(ctx_, w, ctx_.Float(Dtype::F32, 2));
  const UOp user = ir::Add(ctx_, next, w);
  const NormalForm f = Form({{next, w, true}, {user, Buffer(2)}});
  ASSERT_EQ(f.sink.n_src(), 2u);
  const UOp sum = f.sink.src(1).src(1);
  EXPECT_EQ(sum.op(), Op::ADD);
  EXPECT_EQ(sum.src(0).op(), Op::AFTER);  // the new value, from memory
  EXPECT_EQ(sum.src(1).op(), Op::PARAM);  // the old one
  EXPECT_EQ(sum.src(0).src(1), f.sink.src(0));
}

TEST_F(NormalizeTest, TheOrderOfOutputsIsKept) {
  const UOp a = ir::Mul(ctx_, Buffer(1), Buffer(1));
  const NormalForm f = Form({{a, Buffer(5)}, {Buffer(1), Buffer(6)}, {a, Buffer(7)}});
  ASSERT_EQ(f.sink.n_src(), 3u);
  EXPECT_THAT(f.buffers, ElementsAre(1, 5, 6, 7));
  EXPECT_EQ(f.sink.src(2).src(0).slot(), 3);
}

}  // namespace
}  // namespace uopd::client
