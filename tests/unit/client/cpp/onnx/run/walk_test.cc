// SPDX-License-Identifier: MIT
// Going over nodes: their order, names, functions, graphs within nodes, and limits.
#include "client/cpp/onnx/run/walk.h"

#include "tests/unit/client/cpp/onnx/run/onnx_walk.h"

namespace uopd::client::onnx {
namespace {

using test::GraphAttribute;
using test::InputNamed;
using test::Int;
using test::IntAttribute;
using test::IntNamed;
using test::IntsNamed;
using test::Message;
using test::NodeOf;
using test::OutputNamed;
using test::ProgramOf;
using test::Text;
using test::TrueNamed;
using test::WireTree;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Says(std::vector<WireTree> graph, const OnnxLimits& limits = {}) {
  return OnnxWalk(ProgramOf(std::move(graph)), limits).says();
}

TEST(OnnxWalkTest, NodesStandInTheirOrder) {
  EXPECT_THAT(
      Says({NodeOf("Add", {"a", "b"}, {"y"}), IntNamed("a", 1), NodeOf("Neg", {"a"}, {"b"})}),
      AllOf(HasSubstr("no node before it makes its input `b`"), HasSubstr("`Add`")));
  EXPECT_THAT(Says({NodeOf("Identity", {"y"}, {"y"})}),
              HasSubstr("no node before it makes its input `y`"));
}

// An op may be reading the value that would change.
TEST(OnnxWalkTest, NoNameIsMadeTwice) {
  const WireTree a = IntNamed("a", 1);
  EXPECT_THAT(Says({a, NodeOf("Identity", {"a"}, {"y"}), NodeOf("Neg", {"a"}, {"y"})}),
              AllOf(HasSubstr("its output `y` has the name of another value"), HasSubstr("`Neg`")));
  EXPECT_THAT(Says({a, NodeOf("Identity", {"a"}, {"a"})}), HasSubstr("its output `a`"));
  EXPECT_THAT(Says({a, NodeOf("Split", {"x"}, {"y", "y"}), IntsNamed("x", {1, 2})}),
              HasSubstr("its output `y`"));
  // A graph within a node has names of its own.
  EXPECT_EQ(
      Says({a, TrueNamed("b", {}),
            NodeOf("If", {"b"}, {"y"},
                   {GraphAttribute("then_branch", {NodeOf("Neg", {"a"}, {"y"}), OutputNamed("y")}),
                    GraphAttribute("else_branch", {OutputNamed("a")})})}),
      "");
}

std::vector<WireTree> DoublingFunction(std::vector<WireTree> more = {}) {
  WireTree node = NodeOf("Add", {"x", "x"}, {"y"});
  node.number = 7;
  return test::With({Text(1, "twice"), Text(10, "d"), Text(4, "x"), Text(5, "y"),
                     Message(9, {Text(1, ""), Int(2, 27)}), std::move(node)},
                    std::move(more));
}

TEST(OnnxWalkTest, Functions) {
  const auto call = [](const std::vector<std::string>& in, const std::vector<std::string>& out) {
    return NodeOf("twice", in, out, {Text(7, "d")});
  };
  OnnxWalk walk(
      ProgramOf({IntNamed("a", 3), call({"a"}, {"b"}), call({"b"}, {"c"})}, {DoublingFunction()}));
  EXPECT_EQ(walk.says(), "");
  EXPECT_EQ(walk.Known("c"), "() 12");
  EXPECT_EQ(walk.Find("x"), nullptr);  // names within a function stay there
  const auto says = [&](const WireTree& node) {
    return OnnxWalk(ProgramOf({IntNamed("a", 3), node}, {DoublingFunction()})).says();
  };
  EXPECT_THAT(says(call({"a", "a"}, {"b"})), HasSubstr("more inputs or outputs than its function"));
  EXPECT_THAT(says(call({"none"}, {"b"})), HasSubstr("no node before it makes its input `none`"));
  EXPECT_THAT(says(call({}, {"b"})), HasSubstr("no node before it makes its input `x`"));
  EXPECT_THAT(says(call({"a"}, {"a"})), HasSubstr("its output `a` has the name of another value"));
}

TEST(OnnxWalkTest, LoopsWithKnownTripCounts) {
  // State: s -> s + s; the count of rounds is seen as a scan.
  const auto loop = [](int64_t rounds) {
    return ProgramOf(
        {IntNamed("n", rounds), TrueNamed("go", {}), IntNamed("s", 3),
         NodeOf("Loop", {"n", "go", "s"}, {"t"},
                {GraphAttribute("body", {InputNamed("i"), InputNamed("c"), InputNamed("v"),
                                         NodeOf("Add", {"v", "v"}, {"w"}), OutputNamed("c"),
                                         OutputNamed("w")})})});
  };
  EXPECT_EQ(OnnxWalk(loop(0)).Known("t"), "() 3");
  EXPECT_EQ(OnnxWalk(loop(5)).Known("t"), "() 96");
  EXPECT_EQ(OnnxWalk(loop(-1)).Known("t"), "() 3");
  const OnnxLimits limits{.nodes = 100};
  EXPECT_THAT(OnnxWalk(loop(int64_t{1} << 40), limits).says(),
              HasSubstr("the model runs more than 100 nodes"));
}

TEST(OnnxWalkTest, LimitsCountWhatTheClientMakes) {
  const OnnxLimits limits{.nodes = 10};
  EXPECT_EQ(Says({IntNamed("a", 1), NodeOf("Neg", {"a"}, {"y"})}, limits), "");
  EXPECT_THAT(Says({IntsNamed("n", {4000}), NodeOf("ConstantOfShape", {"n"}, {"y"})}, limits),
              HasSubstr("the model runs more than 10 nodes"));
  EXPECT_THAT(
      Says({IntNamed("a", 1), NodeOf("Sum", std::vector<std::string>(40, "a"), {"y"})}, limits),
      HasSubstr("the model runs more than 10 nodes"));
  // A count that is the largest number does not wrap.
  EXPECT_THAT(Says({test::FloatsNamed("x", {1, 2, 1}),
                    NodeOf("LRN", {"x"}, {"y"}, {IntAttribute("size", INT64_MAX)})}),
              HasSubstr("the model runs more than 262144 nodes"));
}

TEST(OnnxWalkTest, SequencesHoldTensorsOnly) {
  EXPECT_THAT(Says({IntNamed("a", 1), NodeOf("SequenceConstruct", {"a"}, {"s"}),
                    NodeOf("SequenceMap", {"s"}, {"t"},
                           {GraphAttribute("body", {InputNamed("e"), OutputNamed("s")})})}),
              HasSubstr("an output of the body is no tensor"));
}

}  // namespace
}  // namespace uopd::client::onnx
