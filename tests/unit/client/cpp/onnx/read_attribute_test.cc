// SPDX-License-Identifier: MIT
// Attributes of ONNX nodes: every kind of value.
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::Float;
using test::Int;
using test::Message;
using test::OnnxModelOfAttribute;
using test::OnnxTensorFields;
using test::PackedInts;
using test::PackedNumbers;
using test::Text;
using test::WireTree;
using ::testing::HasSubstr;
using Type = OnnxAttribute::Type;

// A parsed model with one attribute.
struct OneOnnxAttribute {
  explicit OneOnnxAttribute(std::vector<WireTree> fields)
      : file(OnnxModelOfAttribute(std::move(fields))), model(ParseOnnx(file)) {
    EXPECT_TRUE(model.ok()) << model.status();
  }
  const OnnxAttribute& operator*() const { return *model->graph.nodes[0].Find("a"); }
  std::string file;
  absl::StatusOr<OnnxModel> model;
};

const std::vector<WireTree>& OnnxScalar() {
  static const std::vector<WireTree> fields = OnnxTensorFields("t", {}, 2, {Text(9, "x")});
  return fields;
}

TEST(OnnxAttributes, ReadsPlainValues) {
  const OneOnnxAttribute f({Float(2, 1.5f), Int(20, 1), Text(13, "doc")});
  EXPECT_EQ((*f).Float(), 1.5f);
  EXPECT_EQ((*f).doc_string, "doc");
  EXPECT_EQ((*f).Int(), std::nullopt);
  EXPECT_EQ((*f).Floats(), nullptr);
  EXPECT_EQ(f.model->graph.nodes[0].Find("b"), nullptr);
  const OneOnnxAttribute i({Int(20, 2), Int(3, -7)});
  EXPECT_EQ((*i).Int(), -7);
  EXPECT_EQ((*i).Float(), std::nullopt);
  const OneOnnxAttribute s({Text(4, "a\xff"), Int(20, 3)});
  EXPECT_EQ((*s).String(), "a\xff");
  for (const auto& list : {std::vector<WireTree>{PackedNumbers<float>(7, {1, 2, 3}), Int(20, 6)},
                           {Float(7, 1), Float(7, 2), Float(7, 3), Int(20, 6)},
                           {Float(7, 1), PackedNumbers<float>(7, {2, 3}), Int(20, 6)}}) {
    const OneOnnxAttribute a(list);
    EXPECT_EQ(*(*a).Floats(), (std::vector<float>{1, 2, 3}));
  }
  for (const auto& list : {std::vector<WireTree>{PackedInts(8, {-1, 2, 300}), Int(20, 7)},
                           {Int(8, -1), Int(8, 2), Int(8, 300), Int(20, 7)},
                           {Int(8, -1), Int(20, 7), PackedInts(8, {2, 300})}}) {
    const OneOnnxAttribute a(list);
    EXPECT_EQ(*(*a).Ints(), (std::vector<int64_t>{-1, 2, 300}));
  }
  const OneOnnxAttribute strings({Text(9, "x"), Text(9, ""), Int(20, 8)});
  EXPECT_EQ(*(*strings).Strings(), (std::vector<std::string_view>{"x", ""}));
}

TEST(OnnxAttributes, ReadsMessages) {
  const OneOnnxAttribute t({Message(5, OnnxScalar()), Int(20, 4)});
  ASSERT_NE((*t).Tensor(), nullptr);
  EXPECT_EQ((*t).Tensor()->name, "t");
  EXPECT_EQ(OnnxContents(t.file, *(*t).Tensor()), "x");
  EXPECT_EQ((*t).Graph(), nullptr);
  const OneOnnxAttribute g({Message(6, {Text(2, "inner"), test::OnnxNodeOf("Relu")}), Int(20, 5)});
  ASSERT_NE((*g).Graph(), nullptr);
  EXPECT_EQ((*g).Graph()->nodes[0].op_type, "Relu");
  EXPECT_EQ((*g).Tensor(), nullptr);
  const OneOnnxAttribute ts({Message(10, OnnxScalar()), Message(10, OnnxScalar()), Int(20, 9)});
  EXPECT_EQ(std::get<std::vector<OnnxTensor>>((*ts).value).size(), 2u);
  EXPECT_EQ((*ts).Tensor(), nullptr) << "a list is no tensor";
  const OneOnnxAttribute gs({Message(11, {}), Message(11, {}), Int(20, 10)});
  EXPECT_EQ(std::get<std::vector<OnnxGraph>>((*gs).value).size(), 2u);
  EXPECT_EQ((*gs).Graph(), nullptr);
  const std::vector<WireTree> sparse = {Message(1, OnnxTensorFields("v", {0}, 1)),
                                        Message(2, OnnxTensorFields("", {0}, 7)),
                                        PackedInts(3, {5})};
  const OneOnnxAttribute sp({Message(22, sparse), Int(20, 11)});
  EXPECT_EQ(std::get<std::vector<OnnxSparseTensor>>((*sp).value).at(0).dims, (Dims{5}));
  const OneOnnxAttribute sps({Message(23, sparse), Message(23, sparse), Int(20, 12)});
  EXPECT_EQ(std::get<std::vector<OnnxSparseTensor>>((*sps).value).size(), 2u);
  const OneOnnxAttribute tp({Message(14, {Message(1, {Int(1, 1)})}), Int(20, 13)});
  EXPECT_EQ(std::get<std::vector<OnnxType>>((*tp).value).at(0).kind, OnnxType::Kind::kTensor);
  const OneOnnxAttribute tps({Message(15, {Message(4, {})}), Message(15, {}), Int(20, 14)});
  EXPECT_EQ(std::get<std::vector<OnnxType>>((*tps).value).size(), 2u);
}

// Old files say no type, and some writers leave out what is 0 or empty.
TEST(OnnxAttributes, TypesAndValuesMayBeLeftOut) {
  const OneOnnxAttribute no_type({Int(3, 4)});
  EXPECT_EQ((*no_type).type, Type::kInt);
  EXPECT_EQ((*no_type).Int(), 4);
  EXPECT_EQ((*OneOnnxAttribute({Int(20, 1)})).Float(), 0.0f);
  EXPECT_EQ((*OneOnnxAttribute({Int(20, 2)})).Int(), 0);
  EXPECT_EQ((*OneOnnxAttribute({Int(20, 3)})).String(), "");
  EXPECT_TRUE((*OneOnnxAttribute({Int(20, 6)})).Floats()->empty());
  EXPECT_TRUE((*OneOnnxAttribute({Int(20, 7)})).Ints()->empty());
  EXPECT_TRUE((*OneOnnxAttribute({Int(20, 8)})).Strings()->empty());
  EXPECT_TRUE(std::get<std::vector<OnnxTensor>>((*OneOnnxAttribute({Int(20, 9)})).value).empty());
  EXPECT_TRUE((*OneOnnxAttribute({PackedInts(8, {}), Int(20, 7)})).Ints()->empty());
  const OneOnnxAttribute ref({Text(21, "outer"), Int(20, 1)});
  EXPECT_EQ((*ref).ref_attr_name, "outer");
  EXPECT_EQ((*ref).type, Type::kFloat);
  EXPECT_EQ((*ref).Float(), std::nullopt);
  const OneOnnxAttribute tensor_ref({Text(21, "outer"), Int(20, 4)});
  EXPECT_EQ((*tensor_ref).Tensor(), nullptr);
}

TEST(OnnxAttributes, RefusesAttributesThatAreWrong) {
  struct {
    std::vector<WireTree> fields;
    std::string_view says;
  } const cases[] = {
      {{}, "the attribute has neither a type nor a value"},
      {{Int(20, 0)}, "the attribute has neither a type nor a value"},
      {{Int(20, 15), Int(3, 1)}, "the type of the attribute at byte 21 is 15"},
      {{Int(20, -1)}, "the type of the attribute at byte 21 is -1"},
      {{Int(20, 1), Int(3, 1)}, "the attribute is of the type 1 and has a value of the type 2"},
      {{Int(20, 6), Float(2, 1)}, "the attribute is of the type 6 and has a value of the type 1"},
      {{Int(20, 4)}, "the attribute is of the type 4 and has a value of the type 0"},
      {{Int(20, 5)}, "of the type 5 and has a value of the type 0"},
      {{Int(20, 11)}, "of the type 11 and has a value of the type 0"},
      {{Int(20, 13)}, "of the type 13 and has a value of the type 0"},
      {{Int(3, 1), Float(2, 1)}, "the attribute has a second value, in field 2 at byte 23"},
      {{Int(3, 1), Int(3, 1)}, "field 3 is there once more at byte 23"},
      {{Message(6, {}), Message(6, {})}, "field 6 is there once more at byte"},
      {{Text(21, "outer"), Int(3, 1)}, "has a value and takes that of the attribute `outer`"},
      {{Float(3, 1)}, "field 3 at byte 21 is 4 bytes, not a number of variable length"},
      {{Int(2, 1)}, "field 2 at byte 21 is a number of variable length, not 4 bytes"},
      {{Text(7, "abc")}, "the number at byte 23 goes beyond its message"},
      {{Text(8, "\xff")}, "the number at byte 23 goes beyond its message"},
      {{test::Double(8, 1)}, "field 8 at byte 21 is 8 bytes, not bytes with their length"},
      {{Int(4, 1)}, "not bytes with their length"},
      {{Text(1, "b")}, "field 1 is there once more"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        OnnxComplaint(OnnxModelOfAttribute(c.fields)),
        testing::AllOf(HasSubstr(c.says), HasSubstr("(while reading attribute `a` at byte "),
                       HasSubstr("(while reading node 0 of the op `Op` at byte ")));
  }
  EXPECT_THAT(OnnxComplaint(test::OnnxModelOf({test::OnnxNodeOf("Op", {Message(5, {Int(3, 1)})})})),
              HasSubstr("the attribute has no name"));
}

}  // namespace
}  // namespace uopd::client
