// SPDX-License-Identifier: MIT
// The table of opts: one row a kind, complete, documented, and its checks of what an opt names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/text.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/opts/opt_row.h"
#include "tests/support/generated_section.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd::codegen {
namespace {

using ::testing::HasSubstr;
using Names = Operand::Names;

TEST(OptTableTest, DocsListIt) { test::ExpectGenerated("codegen/opts.md", "opts", OptsDocs()); }

TEST(OptTableTest, EachKindHasOneRow) {
  std::set<OptKind> kinds;
  std::set<std::string_view> names;
  for (const OptRow* row : OptRows()) {
    EXPECT_TRUE(kinds.insert(row->kind).second) << row->name;
    EXPECT_TRUE(names.insert(row->name).second) << row->name;
    EXPECT_EQ(&RowOf(row->kind), row);
    EXPECT_EQ(OptRows()[RankOf(row->kind)], row);
    ASSERT_NE(row->add, nullptr) << row->name;
    EXPECT_TRUE(row->amounts == nullptr || row->moves == nullptr) << row->name;
    // A list with an opt of an axis may get the same opt with other amounts, so the amounts are
    // about an axis.
    EXPECT_TRUE(row->amounts == nullptr || row->axis.names == Names::kAxis) << row->name;
    EXPECT_TRUE(row->amounts != nullptr || !(row->slides || row->once)) << row->name;
    for (const std::string_view prose : {row->axes_prose, row->effect, row->limits})
      EXPECT_FALSE(prose.empty()) << row->name;
    for (const Operand& operand : {row->axis, row->amount, row->warps})
      EXPECT_EQ(operand.names == Names::kNothing, operand.name.empty()) << row->name;
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kOptKinds));
}

// Whatever number is wrong, the error names the opt and the reason, and the plan takes other opts
// after it.
TEST(OptTableTest, NumbersThatNameNothingAreRefused) {
  for (const bool blocks : {false, true}) {
    ir::UOpContext ctx;
    const ir::UOp kernel = tests::MatmulKernel(ctx, 8, 16, 32, false, false);
    const Target target = blocks ? tests::BlockTarget(true) : tests::WideTarget();
    OptPlan plan(ctx, kernel, target);
    const auto refused = [&](const Opt& opt, std::string_view why) {
      const absl::Status status = plan.Add(opt);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << Text(opt);
      EXPECT_THAT(status.message(), HasSubstr(Cat("opt ", Text(opt), " does not apply: ")));
      EXPECT_THAT(status.message(), HasSubstr(why)) << Text(opt);
    };
    for (const OptRow* row : OptRows()) {
      if (!row->IsFor(target)) {
        refused({row->kind}, blocks ? "the target has blocks" : "the target has no blocks");
        continue;
      }
      const auto check = [&](const Operand& operand, auto&& opt_of) {
        if (operand.names == Names::kNothing) {
          refused(opt_of(1), "has no ");
        } else {
          refused(opt_of(-1), operand.names == Names::kAxis || operand.names == Names::kLoad ||
                                      operand.names == Names::kRead ||
                                      operand.names == Names::kStore
                                  ? "the kernel has "
                                  : " is negative");
        }
        if (operand.names == Names::kAxis) refused(opt_of(99), "the kernel has 3 axes");
        if (operand.names == Names::kLoad) refused(opt_of(99), "the kernel has 2 loads to pack");
        if (operand.names == Names::kStore) refused(opt_of(99), "the kernel has 1 stores");
      };
      check(row->axis, [&](int n) { return Opt{row->kind, n}; });
      check(row->amount, [&](int n) { return Opt{row->kind, 0, n}; });
      check(row->warps, [&](int n) { return Opt{row->kind, 0, 0, n}; });
    }
    EXPECT_TRUE(plan.opts().empty());
    EXPECT_TRUE(plan.Add({OptKind::kUpcast, 0, 4}).ok());
    EXPECT_TRUE(plan.Apply().ok());
  }
}

}  // namespace
}  // namespace uopd::codegen
