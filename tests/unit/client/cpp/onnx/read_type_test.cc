// SPDX-License-Identifier: MIT
// Types of ONNX values.
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::Int;
using test::Message;
using test::OnnxModelOf;
using test::Text;
using test::WireTree;
using ::testing::HasSubstr;
using Kind = OnnxType::Kind;

// A model with one input, whose type has these fields.
std::string OnnxModelOfType(std::vector<WireTree> type) {
  return OnnxModelOf({Message(11, {Text(1, "x"), Message(2, std::move(type)), Text(3, "doc")})});
}
WireTree OnnxTensorType(int32_t element) { return Message(1, {Int(1, element)}); }

TEST(OnnxTypes, ReadsTypesOfEveryKind) {
  const std::vector<WireTree> shape = {Message(1, {Int(1, 3), Text(3, "N")}),
                                       Message(1, {Text(2, "n")}), Message(1, {}),
                                       Message(1, {Int(1, 0)}), Message(1, {Int(1, -1)})};
  const std::string file = OnnxModelOfType(
      {Message(
           4,
           {Message(
               1,
               {Message(
                   9,
                   {Message(1, {Message(5, {Int(1, 8),
                                            Message(2, {Message(8, {Int(1, 1),
                                                                    Message(2, shape)})})})})})})}),
       Text(6, "TEXT")});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const OnnxValue& x = model->graph.inputs[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.doc_string, "doc");
  EXPECT_EQ(x.type.kind, Kind::kSequence);
  EXPECT_EQ(x.type.denotation, "TEXT");
  const OnnxType& optional = *x.type.inner;
  EXPECT_EQ(optional.kind, Kind::kOptional);
  const OnnxType& map = *optional.inner;
  EXPECT_EQ(map.kind, Kind::kMap);
  EXPECT_EQ(map.element->name, "STRING");
  const OnnxType& tensor = *map.inner;
  EXPECT_EQ(tensor.kind, Kind::kSparseTensor);
  EXPECT_EQ(tensor.element->name, "FLOAT");
  EXPECT_TRUE(tensor.has_shape);
  ASSERT_EQ(tensor.shape.size(), 5u);
  EXPECT_EQ(tensor.shape[0].value, 3);
  EXPECT_EQ(tensor.shape[0].denotation, "N");
  EXPECT_EQ(tensor.shape[1].value, std::nullopt);
  EXPECT_EQ(tensor.shape[1].param, "n");
  EXPECT_EQ(tensor.shape[2].value, std::nullopt);
  EXPECT_EQ(tensor.shape[3].value, 0);
  EXPECT_EQ(tensor.shape[4].value, std::nullopt);
}

TEST(OnnxTypes, ATensorNeedsNeitherShapeNorElement) {
  const std::string file = OnnxModelOf(
      {Message(11, {Text(1, "a"), Message(2, {OnnxTensorType(0)})}),
       Message(11, {Text(1, "b"), Message(2, {Message(1, {Message(2, {})})})}),
       Message(11, {Text(1, "c")}), Message(11, {Text(1, "d"), Message(2, {Message(7, {})})})});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& in = model->graph.inputs;
  EXPECT_EQ(in[0].type.kind, Kind::kTensor);
  EXPECT_EQ(in[0].type.element, nullptr);
  EXPECT_FALSE(in[0].type.has_shape);
  EXPECT_TRUE(in[1].type.has_shape);
  EXPECT_TRUE(in[1].type.shape.empty());
  EXPECT_EQ(in[2].type.kind, Kind::kUnknown);
  EXPECT_EQ(in[3].type.kind, Kind::kUnknown) << "an opaque type is an unknown field";
}

TEST(OnnxTypes, RefusesTypesThatAreWrong) {
  const auto dim = [](std::vector<WireTree> fields) {
    return std::vector<WireTree>{Message(1, {Message(2, {Message(1, std::move(fields))})})};
  };
  const std::vector<WireTree> axes(33, Message(1, {}));
  struct {
    std::vector<WireTree> type;
    std::string_view says;
  } const cases[] = {
      {{OnnxTensorType(99)}, "the type of elements at byte 19 is 99"},
      {{OnnxTensorType(1), Message(4, {})}, "has two kinds"},
      {{OnnxTensorType(1), OnnxTensorType(1)}, "field 1 is there once more at byte 21"},
      {{Int(1, 1)}, "field 1 at byte 17 is a number of variable length, not bytes"},
      {dim({Int(1, -2)}), "the size at byte 23 is -2"},
      {dim({Int(1, int64_t{1} << 48)}), "the size at byte 23 is 281474976710656"},
      {dim({Int(1, 2), Text(2, "n")}), "is a number and a name"},
      {dim({Text(2, "n"), Int(1, 2)}), "is a number and a name"},
      {{Message(1, {Message(2, axes)})}, "has more than 32 axes"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(OnnxComplaint(OnnxModelOfType(c.type)),
                testing::AllOf(HasSubstr(c.says), HasSubstr("while reading input `x`")));
  }
  EXPECT_EQ(OnnxComplaint(OnnxModelOfType(dim({Int(1, (int64_t{1} << 48) - 1)}))), "");
}

TEST(OnnxTypes, TypesAreNestedSixteenDeep) {
  for (const int depth : {1, 16, 17, 10'000}) {
    std::vector<WireTree> type = {OnnxTensorType(1)};
    std::string bytes = test::Written(type);
    for (int i = 1; i < depth; ++i) {
      bytes = test::Written({Message(4, {Text(1, bytes)})});
    }
    const std::string says =
        OnnxComplaint(OnnxModelOf({Message(11, {Text(1, "x"), Text(2, bytes)})}));
    if (depth > kMostOnnxTypeDepth)
      EXPECT_THAT(says, HasSubstr("the ONNX model has types in 16 types"));
    else
      EXPECT_EQ(says, "");
  }
}

}  // namespace
}  // namespace uopd::client
