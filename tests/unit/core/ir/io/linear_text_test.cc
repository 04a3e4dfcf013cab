// SPDX-License-Identifier: MIT
#include "core/ir/io/linear_text.h"

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::ir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Lines whose order is not the one in which nodes were made, a tag and a float.
UOp MakeLinear(UOpContext& ctx) {
  const UOp param = Param(ctx, 0, Dtype::F32, ShapeArg(ctx, Dims{4}));
  const UOp at = ctx.Int(Dtype::I64, 3);
  const UOp address = Index(ctx, param, at);
  const UOp range = ctx.Make(Op::RANGE, Dtype::I64, {ctx.Int(Dtype::I64, 5)},
                             ctx.Data({0, static_cast<int64_t>(AxisType::LOOP)}), 7);
  const UOp store = Store(ctx, address, ctx.Float(Dtype::F32, -0.1));
  const UOp lines[] = {param, range, address, store,
                       ctx.Make(Op::END, Dtype::Void, {store, range})};
  return ctx.Make(Op::LINEAR, Dtype::Void, lines);
}

TEST(LinearTextTest, ParsesWhatItPrints) {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{}, {"n"}, {"n", "a.b-c"}}) {
    UOpContext ctx, other;
    const std::string text = PrintLinear(ctx, {MakeLinear(ctx), "k_4", variables});
    EXPECT_THAT(text, StartsWith("kernel k_4\n"));
    const auto got = ParseLinear(other, text);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    EXPECT_EQ(got->name, "k_4");
    EXPECT_EQ(got->variables, variables);
    EXPECT_EQ(got->linear.src(1).tag(), 7);
    EXPECT_EQ(PrintLinear(other, *got), text);
    EXPECT_EQ(ParseLinear(ctx, text)->linear, MakeLinear(ctx));
  }
}

TEST(LinearTextTest, NamesWhatIsWrong) {
  const auto error = [](std::string_view text) {
    UOpContext ctx;
    return StatusText(ParseLinear(ctx, text).status());
  };
  EXPECT_EQ(error("kernel k\n%0 = LINEAR\n"), "");
  for (const char* text : {"", "kernel", "kernel \n", "kernel a b\n%0 = LINEAR\n", "%0 = LINEAR\n"})
    EXPECT_THAT(error(text), HasSubstr("line 1 is not")) << text;
  EXPECT_THAT(error("kernel k\nvariables n  m\n%0 = LINEAR\n"), HasSubstr("line 2 lists ``"));
  EXPECT_THAT(error("kernel k\nvariables n\n"), HasSubstr("no node"));
  EXPECT_THAT(error("kernel k\n%0 = SINK\n"), HasSubstr("SINK, not LINEAR"));
  EXPECT_THAT(error("kernel k\n%0 = SINK\n%1 = NOOP9\n"), HasSubstr("parsing line 2"));
}

}  // namespace
}  // namespace uopd::ir
