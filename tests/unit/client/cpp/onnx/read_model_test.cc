// SPDX-License-Identifier: MIT
// Models and functions of ONNX, and models that are cut off.
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

WireTree OnnxOpsetOf(uint32_t field, std::string_view domain, int64_t version) {
  return Message(field, {Text(1, domain), Int(2, version)});
}

TEST(OnnxModelReader, ReadsModels) {
  const std::string file = test::Written(
      {Int(1, 9), Text(2, "writer"), Text(3, "1.0"), Text(4, "org"), Int(5, 77), Text(6, "doc"),
       Message(7, {Text(2, "g")}), OnnxOpsetOf(8, "ai.onnx", 18), OnnxOpsetOf(8, "custom", 2),
       Message(14, {Text(1, "k"), Text(2, "v")}), Message(20, {Int(1, 5)}),
       Message(26, {Int(1, 5)}),
       Message(25, {Text(1, "F"), Text(4, "a"), Text(4, "b"), Text(5, "c"), Text(6, "must"),
                    Message(11, {Text(1, "may"), Int(3, 4)}), OnnxOpsetOf(9, "", 17),
                    Message(7, {Text(4, "Add")}), Text(8, "fdoc"), Text(10, "custom"),
                    Message(12, {Text(1, "c")}), Text(13, "o"), Message(14, {Text(1, "x")})})});
  auto parsed = ParseOnnx(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const OnnxModel model = *std::move(parsed);
  EXPECT_EQ(model.ir_version, 9);
  EXPECT_EQ(model.producer_name, "writer");
  EXPECT_EQ(model.producer_version, "1.0");
  EXPECT_EQ(model.domain, "org");
  EXPECT_EQ(model.model_version, 77);
  EXPECT_EQ(model.doc_string, "doc");
  EXPECT_EQ(model.graph.name, "g");
  EXPECT_EQ(model.metadata.at(0).value, "v");
  EXPECT_EQ(model.Opset(""), 18);
  EXPECT_EQ(model.Opset("ai.onnx"), 18);
  EXPECT_EQ(model.Opset("custom"), 2);
  EXPECT_EQ(model.Opset("other"), std::nullopt);
  const OnnxFunction& f = model.functions.at(0);
  EXPECT_EQ(f.name, "F");
  EXPECT_EQ(f.domain, "custom");
  EXPECT_EQ(f.overload, "o");
  EXPECT_EQ(f.doc_string, "fdoc");
  EXPECT_THAT(f.inputs, ElementsAre("a", "b"));
  EXPECT_THAT(f.outputs, ElementsAre("c"));
  EXPECT_THAT(f.attributes, ElementsAre("must"));
  EXPECT_EQ(f.default_attributes.at(0).Int(), 4);
  EXPECT_EQ(f.nodes.at(0).op_type, "Add");
  EXPECT_EQ(f.Opset("ai.onnx"), 17);
  EXPECT_EQ(f.Opset("custom"), std::nullopt);
  EXPECT_EQ(f.value_infos.at(0).name, "c");
  EXPECT_EQ(f.metadata.at(0).key, "x");
  OnnxNode node;
  node.op_type = "F";
  node.domain = "custom";
  EXPECT_EQ(model.FindFunction(node), nullptr);
  node.overload = "o";
  EXPECT_EQ(model.FindFunction(node), &f);
}

TEST(OnnxModelReader, RefusesModelsThatAreWrong) {
  const WireTree graph = Message(7, {});
  const auto function = [](std::vector<WireTree> fields) {
    return Message(25, test::With({Text(1, "F"), Text(10, "d")}, std::move(fields)));
  };
  struct {
    std::vector<WireTree> model;
    std::string_view says;
  } const cases[] = {
      {{}, "the ONNX model has no graph"},
      {{Int(1, 8)}, "the ONNX model has no graph"},
      {{graph, graph}, "field 7 is there once more at byte 2"},
      {{Int(7, 1)}, "field 7 at byte 0 is a number of variable length, not bytes"},
      {{Text(1, "a"), graph}, "field 1 at byte 0 is bytes with their length, not a number"},
      {{graph, OnnxOpsetOf(8, "", 1), OnnxOpsetOf(8, "ai.onnx", 2)},
       "an opset of the domain `` is there twice"},
      {{graph, Message(8, {Int(1, 1)})}, "field 1 at byte 4 is a number"},
      {{graph, Message(25, {})}, "the function has no name (while reading function 0 at byte 5)"},
      {{graph, function({}), function({})}, "function `F` of the domain `d` is there twice"},
      {{graph, function({Text(4, "x"), Text(4, "x")})},
       "input `x` is there twice (while reading f"},
      {{graph, function({Text(6, "p"), Message(11, {Text(1, "p"), Int(3, 1)})})},
       "attribute `p` is there twice"},
      {{graph, function({OnnxOpsetOf(9, "", 1), OnnxOpsetOf(9, "", 2)})}, "an opset of the domain"},
      {{graph, function({Message(7, {})})}, "no op_type (while reading node 0 of the op `` at"},
      {{graph, function({Int(7, 1)})}, "(while reading function `F` at byte "},
  };
  for (const auto& c : cases) EXPECT_THAT(OnnxComplaint(test::Written(c.model)), HasSubstr(c.says));
  EXPECT_EQ(OnnxComplaint(test::Written({graph, function({}), function({Text(13, "o")})})), "");
}

// A file with every kind of field, cut off at every byte. The graph is the last field of the file,
// so that no part is a model.
TEST(OnnxModelReader, CutOffAtEveryByte) {
  const std::string file = OnnxModelOf(
      {OnnxNodeOf("If", {Text(1, "x"), Message(5, {Text(1, "a"), test::Float(2, 1), Int(20, 1)}),
                         Message(5, {Text(1, "b"), Message(6, {OnnxNodeOf("Relu")})}),
                         Message(5, {Text(1, "c"), test::PackedInts(8, {1, 300})})}),
       OnnxInitializer("w", {2}, 1, {Text(9, "12345678")}),
       OnnxInitializer("v", {2}, 11, {test::Double(10, 1), test::Double(10, 2)}),
       OnnxInitializer("s", {1}, 8, {Text(6, "text")}),
       test::OnnxElsewhere("e", {2}, 1, {{"location", "file"}}),
       Message(11,
               {Text(1, "x"), Message(2, {Message(1, {Int(1, 1), Message(2, {Message(1, {})})})})}),
       Message(12, {Text(1, "y")})});
  ASSERT_EQ(OnnxComplaint(file), "");
  for (size_t n = 0; n < file.size(); ++n) EXPECT_NE(OnnxComplaint(file.substr(0, n)), "") << n;
  // Bytes behind the model are fields of it.
  EXPECT_THAT(OnnxComplaint(file + "\x0b"), HasSubstr(Cat("field 1 at byte ", file.size())));
}

TEST(OnnxModelReader, HasAtMostAQuarterOfAMillionNodes) {
  const auto with = [](uint64_t nodes) {
    std::string graph, node;
    OnnxNodeOf("A").Write(node);
    for (uint64_t i = 0; i < nodes; ++i) graph += node;
    return test::Written({Text(7, graph)});
  };
  EXPECT_EQ(OnnxComplaint(with(kMostOnnxNodes)), "");
  EXPECT_THAT(OnnxComplaint(with(kMostOnnxNodes + 1)), HasSubstr("more than 262144 nodes"));
}

// What the lists of a model would take is counted before they are allocated.
TEST(OnnxModelReader, TakesAtMostItsMemory) {
  const auto with = [](const WireTree& field, size_t count) {
    std::string one, graph;
    field.Write(one);
    for (size_t i = 0; i < count; ++i) graph += one;
    return test::Written({Text(7, graph)});
  };
  constexpr std::string_view kSays = "takes more than 268435456 bytes of memory";
  EXPECT_THAT(OnnxComplaint(with(Message(13, {}), 4 << 20)), HasSubstr(kSays));
  EXPECT_EQ(OnnxComplaint(with(Message(13, {}), 1 << 20)), "");
  EXPECT_THAT(OnnxComplaint(with(Message(16, {}), 9 << 20)), HasSubstr(kSays));
  const auto ints = [](size_t count) {
    return test::OnnxModelOfAttribute({Text(8, std::string(count, '\1'))});
  };
  EXPECT_THAT(OnnxComplaint(ints(12 << 20)), HasSubstr(kSays));
  EXPECT_EQ(OnnxComplaint(ints(8 << 20)), "");
}

}  // namespace
}  // namespace uopd::client
