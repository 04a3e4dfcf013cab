// SPDX-License-Identifier: MIT
// The contents of ONNX tensors: every type of elements, in every field that may have them.
#include "core/base/text.h"
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::Double;
using test::Float;
using test::Int;
using test::OnnxInitializer;
using test::OnnxModelOf;
using test::PackedInts;
using test::PackedNumbers;
using test::Text;
using ::testing::HasSubstr;

// The contents of a tensor with these fields, or what is wrong.
std::string ContentsOf(const std::vector<int64_t>& dims, int32_t type,
                       std::vector<test::WireTree> contents) {
  const std::string file = OnnxModelOf({OnnxInitializer("w", dims, type, std::move(contents))});
  const auto model = ParseOnnx(file);
  if (!model.ok()) return OnnxComplaint(file);
  return OnnxContents(file, *model->graph.FindInitializer("w"));
}
template <class T>
std::string Bytes(const std::vector<T>& values) {
  return PackedNumbers(1, values).bytes;
}

TEST(OnnxContents, RawDataOfEveryType) {
  for (const OnnxElementType& t : OnnxElementTypes()) {
    if (t.bits == 0) {
      EXPECT_THAT(ContentsOf({2}, t.number, {Text(9, "ab")}),
                  HasSubstr("has 0 strings and numbers"));
      continue;
    }
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 9}) {
      const auto bytes = static_cast<size_t>((n * t.bits + 7) / 8);
      const std::string raw = std::string("0123456789abcdef").append(200, 'x').substr(0, bytes);
      EXPECT_EQ(ContentsOf({n}, t.number, {Text(9, raw)}), raw) << t.name << " " << n;
      EXPECT_THAT(ContentsOf({n}, t.number, {Text(9, raw + "y")}),
                  HasSubstr(Cat("a tensor ", t.name, " of the sizes (", n, ") has ", bytes + 1,
                                " bytes of raw_data, not ", bytes)));
      if (n > 0) {
        EXPECT_THAT(ContentsOf({n}, t.number, {}), HasSubstr("has 0 bytes of contents, not"));
      }
    }
  }
}

TEST(OnnxContents, TypedFieldsOfEveryType) {
  EXPECT_EQ(ContentsOf({2}, 1, {PackedNumbers<float>(4, {1, 2})}), Bytes<float>({1, 2}));
  EXPECT_EQ(ContentsOf({1}, 14, {PackedNumbers<float>(4, {1, 2})}), Bytes<float>({1, 2}));
  EXPECT_EQ(ContentsOf({2}, 11, {PackedNumbers<double>(10, {1, 2})}), Bytes<double>({1, 2}));
  EXPECT_EQ(ContentsOf({1}, 15, {PackedNumbers<double>(10, {1, 2})}), Bytes<double>({1, 2}));
  EXPECT_EQ(ContentsOf({2}, 7, {PackedInts(7, {-5, INT64_MAX})}), Bytes<int64_t>({-5, INT64_MAX}));
  EXPECT_EQ(ContentsOf({1}, 13, {PackedInts(11, {-1})}), Bytes<int64_t>({-1}));
  EXPECT_EQ(ContentsOf({1}, 12, {PackedInts(11, {4'000'000'000})}),
            Bytes<uint32_t>({4'000'000'000}));
  struct {
    int32_t type;
    int bytes;
    int64_t least, most;
  } const in_int32[] = {{2, 1, 0, 255},
                        {3, 1, -128, 127},
                        {4, 2, 0, 65535},
                        {5, 2, -32768, 32767},
                        {9, 1, 0, 1},
                        {10, 2, 0, 65535},
                        {16, 2, 0, 65535},
                        {17, 1, 0, 255},
                        {18, 1, 0, 255},
                        {19, 1, 0, 255},
                        {20, 1, 0, 255},
                        {24, 1, 0, 255},
                        {6, 4, INT32_MIN, INT32_MAX}};
  for (const auto& c : in_int32) {
    const std::string name(FindOnnxElementType(c.type)->name);
    std::string want(reinterpret_cast<const char*>(&c.least), static_cast<size_t>(c.bytes));
    want.append(reinterpret_cast<const char*>(&c.most), static_cast<size_t>(c.bytes));
    EXPECT_EQ(ContentsOf({2}, c.type, {PackedInts(5, {c.least, c.most})}), want) << name;
    for (const int64_t wrong : {c.least - 1, c.most + 1}) {
      EXPECT_THAT(ContentsOf({1}, c.type, {PackedInts(5, {wrong})}),
                  HasSubstr(Cat("the number ", wrong, " at byte ")))
          << name;
    }
  }
  for (const int64_t wrong : {int64_t{-1}, int64_t{1} << 32})
    EXPECT_THAT(ContentsOf({1}, 12, {PackedInts(11, {wrong})}), HasSubstr(" is no UINT32"));
}

TEST(OnnxContents, SmallElementsShareBytes) {
  for (const int32_t type : {21, 22, 23}) {
    EXPECT_EQ(ContentsOf({3}, type, {PackedInts(5, {0x21, 0xf3})}), "\x21\xf3");
    EXPECT_THAT(ContentsOf({3}, type, {PackedInts(5, {1, 2, 3})}), HasSubstr("3 numbers, not 2"));
    EXPECT_THAT(ContentsOf({1}, type, {PackedInts(5, {256})}), HasSubstr("the number 256"));
  }
  for (const int32_t type : {25, 26}) {
    EXPECT_EQ(ContentsOf({5}, type, {PackedInts(5, {0xe4, 0x03})}), "\xe4\x03");
    EXPECT_THAT(ContentsOf({4}, type, {PackedInts(5, {1, 2})}), HasSubstr("2 numbers, not 1"));
  }
}

// A writer may write a list as it likes: each number behind its tag, packed, or both by turns.
TEST(OnnxContents, NumbersPackedAndNot) {
  EXPECT_EQ(ContentsOf({3}, 1, {Float(4, 1), Float(4, 2), Float(4, 3)}), Bytes<float>({1, 2, 3}));
  EXPECT_EQ(ContentsOf({2}, 11, {Double(10, 1), Double(10, 2)}), Bytes<double>({1, 2}));
  EXPECT_EQ(ContentsOf({2}, 3, {Int(5, -1), Int(5, 7)}), "\xff\x07");
  EXPECT_EQ(ContentsOf({6}, 7,
                       {Int(7, 1), PackedInts(7, {2, 3}), PackedInts(7, {}), Int(7, 4),
                        Text(12, "doc"), Int(7, 5), Int(7, 6)}),
            Bytes<int64_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(
      ContentsOf({4}, 1,
                 {PackedNumbers<float>(4, {1}), Float(4, 2), PackedNumbers<float>(4, {3, 4})}),
      Bytes<float>({1, 2, 3, 4}));
  // Also in a file whose list comes before the type.
  const std::string file = OnnxModelOf(
      {test::Message(5, {PackedInts(7, {8, 9}), Text(8, "w"), Int(2, 7), Int(1, 1), Int(1, 2)})});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(OnnxContents(file, model->graph.initializers[0]), Bytes<int64_t>({8, 9}));
  EXPECT_EQ(model->graph.initializers[0].dims, (Dims{1, 2}));
}

TEST(OnnxContents, RefusesContentsThatAreWrong) {
  struct {
    std::vector<int64_t> dims;
    int32_t type;
    std::vector<test::WireTree> contents;
    std::string_view says;
  } const cases[] = {
      {{2},
       1,
       {PackedNumbers<float>(4, {1})},
       "a tensor FLOAT of the sizes (2) has 1 numbers, not 2"},
      {{1}, 14, {PackedNumbers<float>(4, {1})}, "has 1 numbers, not 2"},
      {{1}, 1, {Text(4, "abcde")}, "field 4 has 5 bytes at byte"},
      {{1}, 11, {Text(10, "abcd")}, "no numbers of 8"},
      {{1}, 1, {PackedInts(5, {1})}, "a tensor FLOAT has values in field 5 at byte"},
      {{1}, 6, {PackedInts(7, {1})}, "has values in field 7"},
      {{1}, 8, {PackedInts(5, {1})}, "has 0 strings and numbers, not 1"},
      {{1}, 1, {Text(6, "a")}, "has 1 strings, not 0"},
      {{1}, 1, {Text(9, "abcd"), Float(4, 1)}, "contents in field 9 and in field 4 at byte"},
      {{1}, 1, {Text(9, "abcd"), Text(9, "abcd")}, "field 9 is there once more"},
      {{1}, 1, {Int(4, 1)}, "is a number of variable length, not 4 bytes"},
      {{1}, 11, {Float(10, 1)}, "is 4 bytes, not 8 bytes"},
      {{1}, 6, {Float(5, 1)}, "is 4 bytes, not a number of variable length"},
      {{1}, 1, {Int(9, 1)}, "is a number of variable length, not bytes"},
      {{1}, 7, {Text(7, "\x80")}, "goes beyond its message"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(ContentsOf(c.dims, c.type, c.contents),
                testing::AllOf(HasSubstr(c.says), HasSubstr("while reading tensor `w` at byte ")));
  }
}

TEST(OnnxContents, ReadsOnlyWhatFits) {
  const std::string file =
      OnnxModelOf({OnnxInitializer("w", {3}, 7, {PackedInts(7, {1, 2, 300})})});
  const auto model = ParseOnnx(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const OnnxTensor& w = model->graph.initializers[0];
  std::string out(24, '\0');
  EXPECT_EQ(StatusText(ReadOnnx(file, w, std::span(out).first(23))),
            "a tensor of 24 bytes is read into 23 bytes");
  // Files that are not those that were parsed.
  std::string other = file;
  for (char& c : other) c = c == '\x02' ? '\x82' : c;
  EXPECT_EQ(ReadOnnx(other, w, out).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadOnnx(file.substr(0, 20), w, out).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(ReadOnnx(file, w, out).ok());
  const std::string strings = OnnxModelOf({OnnxInitializer("w", {1}, 8, {Text(6, "a")})});
  const auto of_strings = ParseOnnx(strings);
  ASSERT_TRUE(of_strings.ok()) << of_strings.status();
  EXPECT_EQ(StatusText(ReadOnnx(strings, of_strings->graph.initializers[0], {})),
            "the elements of the tensor are strings");
}

}  // namespace
}  // namespace uopd::client
