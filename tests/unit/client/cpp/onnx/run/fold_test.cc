// SPDX-License-Identifier: MIT
// What the client computes itself: integers that are known. Expected values are written by hand.
#include "client/cpp/onnx/run/fold.h"

#include <limits>

#include "core/base/text.h"
#include "tests/unit/client/cpp/onnx/run/onnx_walk.h"

namespace uopd::client::onnx {
namespace {

using test::IntAttribute;
using test::IntNamed;
using test::IntsNamed;
using test::NodeOf;
using test::ProgramOf;
using test::WireTree;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(),
                  kLeast = std::numeric_limits<int64_t>::min();

// An op of the initialisers a, b, c; as a value that the client knows.
std::string Folds(std::string_view op, const std::vector<std::vector<int64_t>>& inputs,
                  std::vector<WireTree> more = {}) {
  std::vector<WireTree> graph;
  std::vector<std::string> names;
  for (const auto& values : inputs) {
    names.emplace_back(1, static_cast<char>('a' + names.size()));
    graph.push_back(IntsNamed(names.back(), values));
  }
  graph.push_back(NodeOf(op, names, {"y"}, std::move(more)));
  OnnxWalk walk(ProgramOf(graph));
  return walk.status().ok() ? walk.Known("y") : walk.says();
}

TEST(OnnxFoldTest, Arithmetic) {
  EXPECT_EQ(Folds("Add", {{1, 2}, {10}}), "(2) 11 12");
  EXPECT_EQ(Folds("Sub", {{1, 2}, {10, 20}}), "(2) -9 -18");
  EXPECT_EQ(Folds("Div", {{7, -7, 7}, {2, 2, -2}}), "(3) 3 -3 -3");
  EXPECT_EQ(Folds("Mod", {{7, -7, 7}, {3, 3, -3}}), "(3) 1 2 -2");
  EXPECT_EQ(Folds("Max", {{1, 5}, {3}}), "(2) 3 5");
  EXPECT_EQ(Folds("Equal", {{1, 5}, {5}}), "(2) 0 1");
  EXPECT_EQ(Folds("ReduceProd", {{2, 3, 4}}), "(1) 24");
}

// As on the daemon: sums wrap, and a quotient that is no number is left to it.
TEST(OnnxFoldTest, ArithmeticAtTheEdges) {
  EXPECT_EQ(Folds("Add", {{kMost}, {1}}), Cat("(1) ", kLeast));
  EXPECT_EQ(Folds("Mul", {{kLeast}, {-1}}), Cat("(1) ", kLeast));
  EXPECT_EQ(Folds("Div", {{kLeast}, {-1}}), Cat("(1) ", kLeast));
  EXPECT_EQ(Folds("Mod", {{kLeast}, {-1}}), "(1) 0");
  EXPECT_EQ(Folds("Div", {{1}, {0}}), "unknown");
  EXPECT_EQ(Folds("Mod", {{1}, {0}}), "unknown");
}

TEST(OnnxFoldTest, Movement) {
  EXPECT_EQ(Folds("Concat", {{1}, {2, 3}, {}}, {IntAttribute("axis", 0)}), "(3) 1 2 3");
  EXPECT_EQ(Folds("Gather", {{5, 6, 7}, {-1, 0}}), "(2) 7 5");
  EXPECT_EQ(Folds("Gather", {{5, 6, 7}, {3}}), "unknown");  // the daemon reads 0 there
  EXPECT_EQ(Folds("Slice", {{5, 6, 7, 8}, {1}, {-1}}), "(2) 6 7");
  EXPECT_EQ(Folds("Slice", {{5, 6}, {kLeast}, {kMost}}), "(2) 5 6");
  EXPECT_EQ(Folds("Expand", {{7}, {2, 2}}), "(2, 2) 7 7 7 7");
}

TEST(OnnxFoldTest, RangesNearTheEndsOfIntegers) {
  const auto range = [](int64_t begin, int64_t end, int64_t step) {
    OnnxWalk walk(ProgramOf({IntNamed("a", begin), IntNamed("b", end), IntNamed("c", step),
                             NodeOf("Range", {"a", "b", "c"}, {"y"})}));
    return walk.status().ok() ? walk.Known("y") : walk.says();
  };
  EXPECT_EQ(range(0, 5, 2), "(3) 0 2 4");
  EXPECT_EQ(range(2, -2, -1), "(4) 2 1 0 -1");
  EXPECT_EQ(range(kMost - 1, kMost, kMost), Cat("(1) ", kMost - 1));
  EXPECT_EQ(range(kLeast, kMost, kMost), Cat("(3) ", kLeast, " -1 ", kMost - 1));
  EXPECT_THAT(range(0, 5, 0), ::testing::HasSubstr("the step is 0"));
}

// Results and inputs that are large are left to the daemon.
TEST(OnnxFoldTest, OnlyFewElements) {
  const std::vector<int64_t> many(4096, 1);
  EXPECT_EQ(Folds("Expand", {{7}, {4097}}), "unknown");
  EXPECT_NE(Folds("Expand", {{7}, {4096}}), "unknown");
  EXPECT_NE(Folds("Concat", {many, many, many, many}, {IntAttribute("axis", 0)}), "unknown");
  EXPECT_EQ(Folds("Concat", {many, many, many, many, {1}}, {IntAttribute("axis", 0)}), "unknown");
  EXPECT_THAT(Folds("Expand", {{7}, std::vector<int64_t>(33, 1)}),
              ::testing::HasSubstr("it has too many axes"));
}

}  // namespace
}  // namespace uopd::client::onnx
