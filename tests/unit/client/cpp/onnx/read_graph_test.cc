// SPDX-License-Identifier: MIT
// Nodes and graphs of ONNX.
#include "core/base/text.h"
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::Int;
using test::Message;
using test::OnnxInitializer;
using test::OnnxModelOf;
using test::OnnxNodeOf;
using test::Text;
using test::WireTree;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

WireTree OnnxInput(std::string_view name) { return Message(11, {Text(1, name)}); }

TEST(OnnxGraphReader, ReadsNodes) {
  const std::string file = OnnxModelOf(
      {Text(2, "g"), Text(10, "about"), Message(16, {Text(1, "k"), Text(2, "v")}),
       OnnxNodeOf("Add",
                  {Text(1, "x"), Text(1, ""), Text(2, "y"), Text(3, "n"), Text(6, "doc"),
                   Text(7, "ai.onnx"), Text(8, "o"), Message(9, {Text(1, "a"), Text(2, "b")}),
                   Message(10, {Int(1, 1)}), Message(5, {Text(1, "p"), Int(3, 1), Int(20, 2)}),
                   Message(5, {Text(1, "q"), Int(3, 2), Int(20, 2)})}),
       OnnxNodeOf("F", {Text(7, "custom")}), Int(99, 1)});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const OnnxGraph& g = model->graph;
  EXPECT_EQ(g.name, "g");
  EXPECT_EQ(g.doc_string, "about");
  EXPECT_EQ(g.metadata.at(0).value, "v");
  ASSERT_EQ(g.nodes.size(), 2u);
  const OnnxNode& n = g.nodes[0];
  EXPECT_EQ(n.op_type, "Add");
  EXPECT_EQ(n.domain, "") << "ai.onnx is the same domain";
  EXPECT_EQ(n.name, "n");
  EXPECT_EQ(n.doc_string, "doc");
  EXPECT_EQ(n.overload, "o");
  EXPECT_THAT(n.inputs, ElementsAre("x", ""));
  EXPECT_THAT(n.outputs, ElementsAre("y"));
  EXPECT_EQ(n.metadata.at(0).key, "a");
  EXPECT_EQ(n.Find("q")->Int(), 2);
  EXPECT_EQ(file.substr(n.offset, 5),
            "\x22\x03"
            "Add");
  EXPECT_EQ(g.nodes[1].domain, "custom");
}

TEST(OnnxGraphReader, NamesInputsAndOutputs) {
  const std::string file =
      OnnxModelOf({OnnxInput("x"), OnnxInput("w"), OnnxInput("y"), Message(12, {Text(1, "o")}),
                   Message(12, {Text(1, "p")}), Message(13, {Text(1, "inner")}),
                   OnnxInitializer("w", {1}, 2, {Text(9, "a")}), OnnxInitializer("v", {0}, 1)});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->graph.InputNames(), ElementsAre("x", "y"));
  EXPECT_THAT(model->graph.OutputNames(), ElementsAre("o", "p"));
  EXPECT_EQ(model->graph.value_infos.at(0).name, "inner");
  EXPECT_EQ(model->graph.FindInitializer("v"), &model->graph.initializers[1]);
  EXPECT_EQ(model->graph.FindInitializer("x"), nullptr);
  EXPECT_EQ(model->graph.FindSparseInitializer("w"), nullptr);
}

TEST(OnnxGraphReader, RefusesGraphsThatAreWrong) {
  const WireTree attribute = Message(5, {Text(1, "a"), Int(3, 1)});
  struct {
    std::vector<WireTree> graph;
    std::string_view says;
  } const cases[] = {
      {{Message(1, {})}, "the node has no op_type (while reading node 0 of the op `` at byte 12)"},
      {{OnnxNodeOf("A"), OnnxNodeOf("", {Text(3, "n")})},
       "no op_type (while reading node `n` of the op `` at byte 17) (while reading node 1)"},
      {{OnnxNodeOf("A", {attribute, attribute})}, "attribute `a` is there twice (while reading "},
      {{OnnxNodeOf("A", {Text(4, "B")})}, "field 4 is there once more at byte 15"},
      {{OnnxNodeOf("A", {Int(1, 1)})}, "field 1 at byte 15 is a number of variable length, not"},
      {{Int(1, 1)}, "field 1 at byte 10 is a number of variable length, not bytes"},
      {{test::Float(5, 1)}, "field 5 at byte 10 is 4 bytes, not bytes with their length"},
      {{OnnxInput("x"), OnnxInput("x")}, "input `x` is there twice (while reading the graph at"},
      {{OnnxInitializer("w", {0}, 1), OnnxInitializer("w", {0}, 1), Text(2, "main")},
       "initialiser `w` is there twice (while reading graph `main` at byte 10)"},
      {{OnnxInitializer("w", {0}, 1), OnnxInitializer("", {0}, 1)}, "initialiser 1 has no name"},
      {{Message(12, {Int(1, 1)})}, "(while reading output 0)"},
      {{Message(13, {Text(1, "v"), Int(2, 1)})}, "(while reading value `v`)"},
      {{Message(16, {Int(1, 1)})}, "field 1 at byte 13 is a number of variable length"},
  };
  for (const auto& c : cases) EXPECT_THAT(OnnxComplaint(OnnxModelOf(c.graph)), HasSubstr(c.says));
}

// The model's graph is the first of sixteen.
TEST(OnnxGraphReader, GraphsAreNestedSixteenDeep) {
  for (const int depth : {1, 15, 16, 17, 3000}) {
    std::string inner;
    for (int i = 1; i < depth; ++i) {
      inner = test::Written({OnnxNodeOf("If", {Message(5, {Text(1, "a"), Text(6, inner)})})});
    }
    const std::string file = test::Written({Text(7, inner)});
    const std::string says = OnnxComplaint(file);
    if (depth > kMostOnnxGraphDepth)
      EXPECT_THAT(says, HasSubstr("the ONNX model has graphs in 16 graphs (while reading the gr"));
    else
      EXPECT_EQ(says, "");
  }
}

}  // namespace
}  // namespace uopd::client
