// SPDX-License-Identifier: MIT
#include "core/ir/analysis/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/io/print.h"

namespace uopd::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Parsed {
  UOpContext ctx;
  UOp root;
  explicit Parsed(std::string_view text) : root(*Parse(ctx, text)) {}
};

constexpr char kBase[] = R"(
%0 = CONST<index> {16}
%1 = STACK<index> %0
%2 = PARAM<f32> %1 {0, GLOBAL}
%3 = PARAM<f32> %1 {1, GLOBAL}
%4 = CONST<f32> {2}
%5 = MUL<f32> %3, %4
%6 = STORE %2, %5
%7 = SINK %6
)";

// kBase with every `from` replaced.
std::string With(std::string_view from, std::string_view to) {
  std::string text = kBase;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::vector<std::string> Fields(std::string_view other, size_t most = 10) {
  const Parsed a(kBase), b(other);
  Interrupt never({});
  std::vector<std::string> out;
  for (const Difference& d : Diff(a.ctx, a.root, b.ctx, b.root, most, never))
    out.push_back(d.path + ": " + d.field + " " + d.a + " -> " + d.b);
  return out;
}

TEST(Diff, SameGraphsInDifferentContexts) { EXPECT_THAT(Fields(kBase), ElementsAre()); }

TEST(Diff, NamesTheFieldAndTheWayToIt) {
  EXPECT_THAT(Fields(With("{2}", "{3}")),
              ElementsAre("SINK.0 > STORE.1 > MUL.1 > CONST: value {2} -> {3}"));
  EXPECT_THAT(Fields(With("{16}", "{32}")),
              ElementsAre("SINK.0 > STORE.0 > PARAM.0 > STACK.0 > CONST: value {16} -> {32}"));
  EXPECT_THAT(Fields(With("{1, GLOBAL}", "{1, GLOBAL, \"CPU:1\"}")),
              ElementsAre("SINK.0 > STORE.1 > MUL.0 > PARAM: slot, memory and device "
                          "{1, GLOBAL} -> {1, GLOBAL, \"CPU:1\"}"));
}

TEST(Diff, OpsEndTheWalk) {
  EXPECT_THAT(Fields(With("MUL", "ADD")),
              ElementsAre(testing::AllOf(HasSubstr("SINK.0 > STORE.1 > MUL: op %"),
                                         HasSubstr("= MUL<f32>"), HasSubstr("= ADD<f32>"))));
}

TEST(Diff, DtypesAreNamedWhereTheyBegin) {
  EXPECT_THAT(Fields(With("f32", "f16")),
              ElementsAre("SINK.0 > STORE.0 > PARAM: dtype f32 -> f16",
                          "SINK.0 > STORE.1 > MUL.0 > PARAM: dtype f32 -> f16",
                          "SINK.0 > STORE.1 > MUL.1 > CONST: dtype f32 -> f16"));
}

TEST(Diff, CountsOfSourcesAndTheLimit) {
  std::string more = kBase;
  more += "%8 = STORE %3, %4\n%9 = SINK %6, %8\n";
  EXPECT_THAT(Fields(more), ElementsAre("SINK: sources 1 -> 2"));
  EXPECT_THAT(Fields(With("f32", "f16"), 1), testing::SizeIs(1));
}

TEST(Diff, DeepAndSharedGraphsTakeLinearTime) {
  // A ladder: both sources of every rung are the rung below, so there are 2^50,000 ways down.
  const auto ladder = [](UOpContext& ctx, double bottom) {
    UOp u = ctx.Float(Dtype::F32, bottom);
    for (int i = 0; i < 50'000; ++i) u = ctx.Make(Op::ADD, Dtype::F32, {u, u});
    return u;
  };
  UOpContext a, b;
  Interrupt never({});
  const auto found = Diff(a, ladder(a, 1), b, ladder(b, 2), 10, never);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "value");
  EXPECT_TRUE(found[0].path.starts_with("... > ADD.0"));
}

TEST(Diff, EndsWhenNobodyWantsIt) {
  const Parsed a(kBase), b(With("f32", "f16"));
  for (int most_looks = 1;; ++most_looks) {
    int looks = 0;
    Interrupt interrupt({.cancelled = [&] { return ++looks >= most_looks; }});
    interrupt.LookAtEveryPoll();
    const auto found = Diff(a.ctx, a.root, b.ctx, b.root, 10, interrupt);
    if (!interrupt.raised()) {
      EXPECT_EQ(found.size(), 3u);
      EXPECT_GT(most_looks, 16);  // two graphs of eight nodes, and the walk
      break;
    }
    EXPECT_LT(found.size(), 4u);
    EXPECT_EQ(looks, most_looks);  // it goes on no further
  }
  Interrupt raised({.cancelled = [] { return true; }});
  raised.LookAtEveryPoll();
  EXPECT_THAT(Sketch(a.ctx, a.root, raised), testing::IsEmpty());
}

TEST(Sketch, IgnoresSizesAndConstants) {
  const Parsed base(kBase), size(With("{16}", "{32}")), value(With("{2}", "{5}")),
      op(With("MUL", "ADD"));
  Interrupt never({});
  const auto sketch = Sketch(base.ctx, base.root, never);
  EXPECT_EQ(Similarity(sketch, Sketch(size.ctx, size.root, never)), 1);
  EXPECT_EQ(Similarity(sketch, Sketch(value.ctx, value.root, never)), 1);
  const double other = Similarity(sketch, Sketch(op.ctx, op.root, never));
  EXPECT_GT(other, 0.2);
  EXPECT_LT(other, 1);
  EXPECT_EQ(Similarity(sketch, {}), 0);
  EXPECT_EQ(Similarity({}, {}), 1);
}

}  // namespace
}  // namespace uopd::ir
