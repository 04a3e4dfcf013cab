// SPDX-License-Identifier: MIT
// Tensors of ONNX without their contents: names, shapes, strings, external data, sparse tensors.
#include "core/base/text.h"
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::Int;
using test::Message;
using test::OnnxElsewhere;
using test::OnnxInitializer;
using test::OnnxModelOf;
using test::OnnxTensorFields;
using test::PackedInts;
using test::Text;
using ::testing::HasSubstr;

TEST(OnnxTensorReader, ReadsStrings) {
  const std::string file = OnnxModelOf({OnnxInitializer(
      "w", {2, 2}, 8,
      {Text(6, "a"), Text(6, ""), Text(6, "\xff"), Text(6, "d"), Text(12, "doc")})});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const OnnxTensor& w = *model->graph.FindInitializer("w");
  EXPECT_EQ(w.strings, (std::vector<std::string_view>{"a", "", "\xff", "d"}));
  EXPECT_EQ(w.doc_string, "doc");
  EXPECT_EQ(w.type->name, "STRING");
  EXPECT_EQ(w.elements(), 4u);
  EXPECT_EQ(w.bytes(), 0u);
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxInitializer("w", {2}, 8, {Text(6, "a")})})),
              HasSubstr("a tensor STRING of the sizes (2) has 1 strings, not 2"));
}

TEST(OnnxTensorReader, RefusesShapesThatAreWrong) {
  struct {
    std::vector<int64_t> dims;
    std::string_view says;
  } const cases[] = {
      {{-1}, "the tensor has the sizes (-1)"},
      {{INT64_MIN, 0}, "has the sizes (-9223372036854775808, 0)"},
      {{int64_t{1} << 48}, "has the sizes (281474976710656)"},
      {{1 << 24, 1 << 24}, "has the sizes (16777216, 16777216)"},
      {{0, int64_t{1} << 48}, "has the sizes (0, 281474976710656)"},
      {{int64_t{1} << 47, 2, 0}, "has the sizes"},
      {std::vector<int64_t>(33, 1), "has more than 32 axes"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxInitializer("w", c.dims, 2)})), HasSubstr(c.says));
  EXPECT_EQ(OnnxComplaint(OnnxModelOf(
                {OnnxInitializer("w", std::vector<int64_t>(32, 1), 2, {Text(9, "x")})})),
            "");
  EXPECT_EQ(OnnxComplaint(OnnxModelOf({OnnxInitializer("w", {0, (int64_t{1} << 48) - 1}, 2)})), "");
}

TEST(OnnxTensorReader, RefusesTensorsThatAreWrong) {
  struct {
    std::vector<test::WireTree> fields;
    std::string_view says;
  } const cases[] = {
      {{Text(8, "w")}, "the tensor has no type of elements (while reading tensor `w` at byte"},
      {{Text(8, "w"), Int(2, 0)}, "the type of elements at byte 15 is 0, which is not known"},
      {{Int(2, 27)}, "is 27, which is not known here (while reading the tensor at byte "},
      {{Int(2, 1), Int(2, 1)}, "field 2 is there once more at byte "},
      {{Int(2, 1), Message(3, {Int(1, 0)})}, "the tensor is a segment of another one at byte"},
      {{Text(2, "x")}, "field 2 at byte 12 is bytes with their length, not a number of variable"},
      {{Int(8, 1)}, "field 8 at byte 12 is a number of variable length, not bytes"},
      {{test::Float(1, 1)}, "field 1 at byte 12 is 4 bytes, not bytes"},
      {{Text(8, "\x1b\n\xff"), Int(2, 99)}, "while reading tensor `???` at byte 12)"},
      {{Int(2, 1), Int(14, 2)}, "the data_location at byte 14 is 2"},
      {{Int(2, 1), PackedInts(1, {0})}, "initialiser 0 has no name"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(OnnxComplaint(OnnxModelOf({Message(5, c.fields)})), HasSubstr(c.says));
}

TEST(OnnxTensorReader, ReadsWhereExternalDataAre) {
  const std::string file = OnnxModelOf({OnnxElsewhere("w", {3}, 22,
                                                      {{"location", "a/..b/./c"},
                                                       {"offset", "4096"},
                                                       {"length", "2"},
                                                       {"checksum", "x"},
                                                       {"y", ""}})});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const OnnxTensor& w = model->graph.initializers[0];
  ASSERT_NE(w.external, nullptr);
  EXPECT_EQ(w.external->location, "a/..b/./c");
  EXPECT_EQ(w.external->offset, 4096u);
  EXPECT_EQ(w.external->checksum, "x");
  std::string out(2, '\0');
  EXPECT_EQ(StatusText(ReadOnnx(file, w, out)), "tensor `w` has its contents in another file");
  // Entries of a tensor whose contents are here say nothing.
  EXPECT_EQ(
      OnnxComplaint(OnnxModelOf({OnnxInitializer(
          "w", {1}, 2, {Text(9, "x"), Message(13, {Text(1, "location"), Text(2, "/etc")})})})),
      "");
}

TEST(OnnxTensorReader, RefusesExternalDataThatAreWrong) {
  using Entries = std::vector<std::pair<std::string, std::string>>;
  const std::string long_path(4096, 'a');
  struct {
    Entries entries;
    std::string_view says;
  } const cases[] = {
      {{}, "the path `` of its external data is empty"},
      {{{"location", ""}}, "is empty"},
      {{{"location", "/etc/passwd"}}, "the path `/etc/passwd` of its external data is absolute"},
      {{{"location", ".."}}, "the path `..` of its external data leads out of its folder"},
      {{{"location", "../a"}}, "leads out of its folder"},
      {{{"location", "a/../b"}}, "leads out of its folder"},
      {{{"location", "a/.."}}, "leads out of its folder"},
      {{{"location", std::string("a\0b", 3)}}, "the path `a?b` of its external data has a byte 0"},
      {{{"location", long_path}}, "is too long"},
      {{{"location", "a"}, {"offset", "-1"}}, "offset of its external data is `-1`"},
      {{{"location", "a"}, {"offset", "1x"}}, "offset of its external data is `1x`"},
      {{{"location", "a"}, {"offset", ""}}, "offset of its external data is ``"},
      {{{"location", "a"}, {"offset", "9223372036854775808"}}, "is `9223372036854775808`"},
      {{{"location", "a"}, {"length", "11"}}, "has 11 bytes; its sizes and type make 12"},
      {{{"location", "a"}, {"location", "b"}}, "of its external data `location` is there twice"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxElsewhere("w", {3}, 1, c.entries)})),
                testing::AllOf(HasSubstr(c.says), HasSubstr("while reading tensor `w`")));
  }
  const Entries right = {{"location", "a"}};
  EXPECT_EQ(OnnxComplaint(OnnxModelOf({OnnxElsewhere("w", {3}, 1, right)})), "");
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxElsewhere("w", {3}, 8, right)})),
              HasSubstr("in another file and is one of strings or has contents here"));
  test::WireTree both = OnnxElsewhere("w", {1}, 1, right);
  both.children.push_back(Text(9, "abcd"));
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({both})), HasSubstr("or has contents here"));
}

// A sparse initialiser: `values` values, and the sizes of the indices.
test::WireTree OnnxSparse(int64_t values, const std::vector<int64_t>& indices,
                          const std::vector<int64_t>& dims, int32_t index_type = 7) {
  const auto bytes = static_cast<size_t>(ir::Product(indices)) * (index_type == 7 ? 8 : 4);
  return Message(
      15,
      {Message(1, OnnxTensorFields("s", {values}, 2,
                                   {Text(9, std::string(static_cast<size_t>(values), 'v'))})),
       Message(2, OnnxTensorFields("", indices, index_type, {Text(9, std::string(bytes, '\0'))})),
       PackedInts(3, dims)});
}

TEST(OnnxTensorReader, ReadsSparseTensors) {
  for (const auto& indices : std::vector<std::vector<int64_t>>{{2}, {2, 3}}) {
    const std::string file = OnnxModelOf({OnnxSparse(2, indices, {4, 5, 6})});
    const auto model = ParseOnnx(file);
    ASSERT_TRUE(model.ok()) << model.status();
    const OnnxSparseTensor* const s = model->graph.FindSparseInitializer("s");
    ASSERT_NE(s, nullptr);
    EXPECT_EQ(s->dims, (Dims{4, 5, 6}));
    EXPECT_EQ(s->indices.dims.size(), indices.size());
    EXPECT_EQ(OnnxContents(file, s->values), "vv");
  }
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxSparse(2, {3}, {9})})),
              HasSubstr("sparse tensor `s` at byte 12 of the sizes (9) has values of the sizes (2) "
                        "and indices INT64 of the sizes (3)"));
  for (const auto& wrong :
       {OnnxSparse(2, {2, 2}, {9}), OnnxSparse(2, {2}, {9}, 6), OnnxSparse(2, {2, 1, 1}, {9})})
    EXPECT_THAT(OnnxComplaint(OnnxModelOf({wrong})), HasSubstr("has values of the sizes (2)"));
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({OnnxSparse(2, {2}, {-9})})), HasSubstr("the sizes (-9)"));
  EXPECT_THAT(OnnxComplaint(OnnxModelOf({Message(15, {PackedInts(3, {9})})})),
              HasSubstr("lacks its values or its indices"));
}

}  // namespace
}  // namespace uopd::client
