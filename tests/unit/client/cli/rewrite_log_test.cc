// SPDX-License-Identifier: MIT
// What the rewrite engine records, read back.
#include "client/cli/rewrite_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/ir/build.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rewrite/rewriter.h"

namespace uopd::cli {
namespace {

using ir::UOp;

TEST(RewriteLog, ReadsWhatTheEngineRecords) {
  const std::string path = ::testing::TempDir() + "rewrite_log_test.jsonl";
  ASSERT_TRUE(rewrite::TraceFile::Open(path).ok());
  ir::UOpContext ctx;
  constexpr rewrite::Any<0> x;
  constexpr rewrite::Any<1> y;
  rewrite::RuleSet inner("inner");
  inner.Add("self", x - x, 0);
  inner.Freeze();
  rewrite::RuleSet rules("outer");
  rules.Add("zero", x + 0, x);
  rules.Add("nested", x * y, [&](const auto& m) -> UOp {
    const auto out = rewrite::Rewrite(m.ctx, m[x], inner);
    return out.ok() && *out != m[x] ? ir::Mul(m.ctx, *out, m[y]) : UOp();
  });
  rules.Freeze();
  const UOp a = ir::Variable(ctx, "a", 0, 9), b = ir::Variable(ctx, "b\"\\", 0, 9);
  const UOp zero = ctx.Idx(0);
  const UOp root =
      ir::Mul(ctx, ir::Sub(ctx, a, a), ir::Add(ctx, ir::Sub(ctx, ir::Add(ctx, b, zero), a), zero));
  {
    const rewrite::TraceGroup group("group");
    ASSERT_TRUE(rewrite::Rewrite(ctx, root, rules, {.name = "pass"}).ok());
    ASSERT_TRUE(rewrite::Rewrite(ctx, a, rules).ok());  // nothing to do: not recorded
  }
  std::ifstream in(path);
  auto log = RewriteLog::Read(in);
  ASSERT_TRUE(log.ok()) << StatusText(log.status());
  ASSERT_EQ(log->passes().size(), 2u);
  const RewriteLog::Pass& outer_pass = log->passes()[0];
  const RewriteLog::Pass& inner_pass = log->passes()[1];
  EXPECT_EQ(outer_pass.name, "group/pass");
  EXPECT_EQ(inner_pass.name, "group/inner");
  EXPECT_EQ(inner_pass.parent, outer_pass.id);
  EXPECT_EQ(outer_pass.parent, 0);
  ASSERT_EQ(outer_pass.steps.size(), 3u);
  ASSERT_EQ(inner_pass.steps.size(), 1u);
  ASSERT_EQ(log->steps().size(), 4u);
  const RewriteLog::Step& first = log->steps()[0];
  EXPECT_EQ(log->rule(first.rule).name, "outer.zero");
  EXPECT_EQ(log->rule(first.rule).file, "tests/unit/client/cli/rewrite_log_test.cc");
  EXPECT_GT(log->rule(first.rule).line, 20);
  EXPECT_EQ(first.from, "b\"\\+0");
  EXPECT_EQ(first.to, "b\"\\");
  EXPECT_EQ(log->NodesUnder(outer_pass.root), 8u);
  EXPECT_EQ(log->Summary()[0].rewrites, 2);
  EXPECT_EQ(log->Summary()[0].nodes, -4);

  // Step 2 replaces the outer sum, whose source step 1 has replaced.
  auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const std::string diff = log->Diff(1, false);
  EXPECT_EQ(count(diff, "- %"), 3u) << diff;  // MUL, ADD and its 0
  EXPECT_EQ(count(diff, "+ %"), 1u) << diff;  // MUL
  EXPECT_EQ(count(diff, "MUL<index>"), 2u) << diff;
  EXPECT_EQ(count(diff, "SUB<index>"), 2u) << diff;
  EXPECT_EQ(count(diff, "DEFINE_VAR"), 0u) << "sources of sources are left out\n" << diff;
  EXPECT_EQ(count(log->Diff(1, true), "DEFINE_VAR"), 2u);
}

// Why passes of codegen did what they did: read beside the rewrites, in the order of the file.
TEST(RewriteLog, HasNotes) {
  std::istringstream in(
      "{\"note\":\"first\",\"name\":\"codegen r_4/choose_opts\"}\n"
      "{\"node\":1,\"op\":\"CONST<index>\",\"src\":[]}\n"
      "{\"pass\":1,\"parent\":0,\"name\":\"p\",\"root\":1}\n"
      "{\"note\":\"second\",\"name\":\"codegen r_4/check_tiles\"}\n");
  const auto log = RewriteLog::Read(in);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ(log->notes().size(), 2u);
  EXPECT_EQ(log->notes()[0].text, "first");
  EXPECT_EQ(log->notes()[0].before, 0u);
  EXPECT_EQ(log->notes()[1].name, "codegen r_4/check_tiles");
  EXPECT_EQ(log->notes()[1].before, 1u);
}

TEST(RewriteLog, RefusesWhatIsNoRecord) {
  for (const char* text :
       {"nonsense\n{}\n", "{\"node\":1}\n{}\n", "{\"node\":1,\"op\":\"X\",\"src\":[2]}\n{}\n",
        "{\"step\":1,\"pass\":9,\"before\":1,\"after\":1,\"rule\":1}\n{}\n",
        "{\"node\":-1,\"op\":\"X\"}\n{}\n", "{\"pass\":1,\"root\":7}\n{}\n", "[1]\n{}\n"}) {
    std::istringstream in(text);
    const auto log = RewriteLog::Read(in);
    EXPECT_EQ(log.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  // A line that the writer did not finish.
  std::istringstream cut("{\"node\":1,\"op\":\"X\",\"src\":[]}\n{\"node\":2,\"op");
  EXPECT_TRUE(RewriteLog::Read(cut).ok());
}

}  // namespace
}  // namespace uopd::cli
