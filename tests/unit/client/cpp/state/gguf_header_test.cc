// SPDX-License-Identifier: MIT
// The header of GGUF files: every type of value, and the rules one by one.
#include "uopd/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/dtype.h"
#include "tests/support/gguf/gguf_bytes.h"

namespace uopd::client {
namespace {

using test::GgufBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What ParseGguf says to a header in front of `data` bytes.
std::string GgufComplaint(std::string_view head, uint64_t data = 0) {
  const std::string file = std::string(head) + std::string(data, '\0');
  const auto header = ParseGguf(file, file.size());
  if (header.ok()) return "";
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << header.status();
  return StatusText(header.status());
}

GgufBytes OneValue(std::string_view key, GgufType type) {
  GgufBytes out;
  out.Start(0, 1).Key(key, type);
  return out;
}
GgufBytes OneTensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  GgufBytes out;
  out.Start(1, 0).Tensor("w", dims, type, offset);
  return out;
}

std::vector<GgufValue> ElementsOf(const GgufValue& value) {
  std::vector<GgufValue> out;
  GgufElements elements(std::get<GgufArray>(value));
  while (elements.left() > 0) out.push_back(elements.Next());
  return out;
}

TEST(GgufHeader, ReadsValuesOfEveryType) {
  GgufBytes b;
  b.Start(0, 17);
  b.Key("u8", GgufType::kUint8).Element<uint8_t>(200);
  b.Key("i8", GgufType::kInt8).Element<int8_t>(-3);
  b.Key("u16", GgufType::kUint16).Element<uint16_t>(60'000);
  b.Key("i16", GgufType::kInt16).Element<int16_t>(-300);
  b.Key("u32", GgufType::kUint32).Element<uint32_t>(4'000'000'000);
  b.Key("i32", GgufType::kInt32).Element<int32_t>(-70'000);
  b.Key("f32", GgufType::kFloat32).Element(0.1f);
  b.Key("yes", GgufType::kBool).Element<uint8_t>(2);
  b.Key("no", GgufType::kBool).Element<uint8_t>(0);
  b.Key("text", GgufType::kString).Text("gr\xc3\xbc\xc3\x9f\xff");
  b.Key("u64", GgufType::kUint64).Element(~uint64_t{0});
  b.Key("i64", GgufType::kInt64).Element(std::numeric_limits<int64_t>::min());
  b.Key("f64", GgufType::kFloat64).Element(0.1);
  b.Key("tokens", GgufType::kArray).Array(GgufType::kString, 3).Text("a").Text("").Text("bc");
  b.Key("ints", GgufType::kArray).Array(GgufType::kInt16, 2).Element<int16_t>(1);
  b.Element<int16_t>(-2);
  b.Key("none", GgufType::kArray).Array(GgufType::kFloat64, 0);
  b.Key("", GgufType::kArray).Array(GgufType::kArray, 2).Array(GgufType::kUint8, 1);
  b.Element<uint8_t>(7).Array(GgufType::kArray, 1).Array(GgufType::kString, 1).Text("x");
  const auto header = ParseGguf(b.bytes, b.bytes.size());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(header->alignment, 32u);
  EXPECT_EQ(header->data_start, (b.bytes.size() + 31) / 32 * 32);
  ASSERT_EQ(header->values.size(), 17u);
  EXPECT_EQ(header->values[1].key, "i8");
  EXPECT_EQ(header->values[1].type, GgufType::kInt8);
  const auto value = [&](std::string_view key) { return *header->Find(key); };
  EXPECT_EQ(std::get<uint64_t>(value("u8")), 200u);
  EXPECT_EQ(std::get<int64_t>(value("i8")), -3);
  EXPECT_EQ(std::get<uint64_t>(value("u16")), 60'000u);
  EXPECT_EQ(std::get<int64_t>(value("i16")), -300);
  EXPECT_EQ(std::get<uint64_t>(value("u32")), 4'000'000'000u);
  EXPECT_EQ(std::get<int64_t>(value("i32")), -70'000);
  EXPECT_EQ(std::get<double>(value("f32")), double{0.1f});
  EXPECT_EQ(std::get<bool>(value("yes")), true);
  EXPECT_EQ(std::get<bool>(value("no")), false);
  EXPECT_EQ(std::get<std::string_view>(value("text")), "gr\xc3\xbc\xc3\x9f\xff");
  EXPECT_EQ(std::get<uint64_t>(value("u64")), ~uint64_t{0});
  EXPECT_EQ(std::get<int64_t>(value("i64")), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(std::get<double>(value("f64")), 0.1);
  const auto tokens = ElementsOf(value("tokens"));
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(std::get<std::string_view>(tokens[0]), "a");
  EXPECT_EQ(std::get<std::string_view>(tokens[1]), "");
  EXPECT_EQ(std::get<std::string_view>(tokens[2]), "bc");
  const auto ints = ElementsOf(value("ints"));
  ASSERT_EQ(ints.size(), 2u);
  EXPECT_EQ(std::get<int64_t>(ints[1]), -2);
  EXPECT_TRUE(ElementsOf(value("none")).empty());
  const auto nested = ElementsOf(value(""));
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(std::get<uint64_t>(ElementsOf(nested[0]).at(0)), 7u);
  EXPECT_EQ(std::get<std::string_view>(ElementsOf(ElementsOf(nested[1]).at(0)).at(0)), "x");
  EXPECT_EQ(header->Find("absent"), nullptr);
}

TEST(GgufHeader, ReadsTensorsInTheirOrder) {
  GgufBytes b;
  b.Start(5, 1, 2).Alignment(64);
  b.Tensor("q", {512, 3}, 12, 128);  // Q4_K: 6 blocks of 144 bytes
  b.Tensor("h", {4, 3, 2}, 1, 0);    // F16: 48 bytes
  b.Tensor("none", {0, 7}, 0, 64);
  b.Tensor("scalar", {}, 24, 1024);
  b.Tensor("next", {32}, 2, 64);  // Q4_0: a block of 18 bytes
  const uint64_t data_start = (b.bytes.size() + 63) / 64 * 64;
  const auto header = ParseGguf(b.bytes, data_start + 1025);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 2u);
  EXPECT_EQ(header->alignment, 64u);
  EXPECT_EQ(header->data_start, data_start);
  struct {
    std::string_view name, type;
    Dims dims;
    uint64_t begin, end;
  } const want[] = {{"q", "Q4_K", {3, 512}, 128, 992},
                    {"h", "F16", {2, 3, 4}, 0, 48},
                    {"none", "F32", {7, 0}, 64, 64},
                    {"scalar", "I8", {}, 1024, 1025},
                    {"next", "Q4_0", {32}, 64, 82}};
  ASSERT_EQ(header->tensors.size(), std::size(want));
  for (size_t i = 0; i < std::size(want); ++i) {
    const GgufTensor& t = header->tensors[i];
    EXPECT_EQ(t.name, want[i].name);
    EXPECT_EQ(t.type->name, want[i].type);
    EXPECT_EQ(t.dims, want[i].dims);
    EXPECT_EQ(t.begin, want[i].begin) << t.name;
    EXPECT_EQ(t.end, want[i].end) << t.name;
  }
  // One byte less.
  EXPECT_THAT(StatusText(ParseGguf(b.bytes, data_start + 1024).status()),
              HasSubstr(Cat("tensor `scalar` goes to byte ", data_start + 1025, " of a file of ",
                            data_start + 1024)));
}

TEST(GgufHeader, KnowsTheTypesOfGgml) {
  uint32_t next = 0;
  for (const GgmlType& t : GgmlTypes()) {
    EXPECT_GE(t.number, next) << "in the order of their numbers";
    next = t.number + 1;
    EXPECT_EQ(FindGgmlType(t.number), &t);
    EXPECT_EQ(t.block_elements == 1, t.dtype.has_value()) << t.name;
    if (t.dtype) {
      EXPECT_EQ(t.block_bytes, static_cast<uint32_t>(ir::ByteSize(*t.dtype))) << t.name;
    }
  }
  EXPECT_EQ(GgmlTypes().size(), 28u);
  for (const uint32_t number : {4u, 5u, 9u, 19u, 29u, 31u, 99u, ~0u})
    EXPECT_EQ(FindGgmlType(number), nullptr) << number;
}

TEST(GgufHeader, RefusesValuesThatAreWrong) {
  constexpr uint64_t kHuge = uint64_t{1} << 61;
  struct {
    GgufBytes bytes;
    std::string_view says;
  } const cases[] = {
      {GgufBytes(), "the GGUF file ends within its header, at byte 0"},
      {GgufBytes().Start(0, 0, 3, "GGML"), "a GGUF file begins with GGUF, not with `GGML`"},
      {GgufBytes().Start(0, 0, 3, "\x1b\xff\nF"), "not with `???F`"},
      {GgufBytes().Start(0, 0, 1), "version 1; 2 and 3 are known"},
      {GgufBytes().Start(0, 0, 4), "version 4; 2 and 3 are known"},
      {GgufBytes().Start(0, 0, 0x03000000), "its numbers are big-endian"},
      {GgufBytes().Start(0, 0, 0x02000000), "its numbers are big-endian"},
      {GgufBytes().Start(0, uint64_t{1} << 60), "and ends before them"},
      {GgufBytes().Start(uint64_t{1} << 60, 0), "and ends before them"},
      {GgufBytes().Start(~uint64_t{0}, ~uint64_t{0}), "and ends before them"},
      {OneValue("a", static_cast<GgufType>(13)).Element(uint64_t{0}),
       "unknown type 13 (while reading the value `a`)"},
      {OneValue("a", GgufType::kUint64).Element<uint32_t>(1),
       "ends within its header, at byte 41 (while reading the value `a`)"},
      {OneValue("a", GgufType::kString).Put(~uint64_t{0}), "ends within"},
      {GgufBytes().Start(0, 1).Put(uint64_t{1} << 62).Element(uint64_t{0}), "ends within"},
      {OneValue("a", GgufType::kArray).Array(GgufType::kUint8, kHuge), "an array of 23058430092"},
      {OneValue("a", GgufType::kArray).Array(GgufType::kString, kHuge), "an array of 23058430092"},
      {OneValue("a", GgufType::kArray).Array(GgufType::kUint64, 2).Element(1.0),
       "an array of 2 elements and ends before them (while reading the value `a`)"},
      {OneValue("a", GgufType::kArray).Array(GgufType::kArray, 1).Element(1.0), "an array of 1"},
      {OneValue("a", GgufType::kArray).Array(static_cast<GgufType>(99), 0), "unknown type 99"},
      {OneValue("a", GgufType::kArray).Array(GgufType::kString, 1).Put(uint64_t{9}),
       "ends within its header"},
      {GgufBytes().Start(0, 2).Alignment(32).Alignment(32), "`general.alignment` twice"},
      {GgufBytes().Start(0, 1).Alignment(24), "general.alignment is 24, no power of two"},
      {GgufBytes().Start(0, 1).Alignment(0), "general.alignment is 0"},
      {GgufBytes().Start(0, 1).Alignment(1 << 21), "general.alignment is 2097152"},
      {OneValue("general.alignment", GgufType::kInt8).Element<int8_t>(-32), "alignment is -32"},
      {OneValue("general.alignment", GgufType::kFloat32).Element(32.0f), "is no integer"},
      {OneValue("general.alignment", GgufType::kBool).Element<uint8_t>(1), "is no integer"},
  };
  for (const auto& c : cases) EXPECT_THAT(GgufComplaint(c.bytes.bytes), HasSubstr(c.says));
  EXPECT_EQ(GgufComplaint(GgufBytes().Start(0, 1).Alignment(1 << 20).bytes), "");
  EXPECT_EQ(GgufComplaint(GgufBytes().Start(0, 1).Alignment(1).bytes), "");
}

TEST(GgufHeader, RefusesTensorsThatAreWrong) {
  struct {
    GgufBytes bytes;
    std::string_view says;
  } const cases[] = {
      {GgufBytes().Start(2, 0).Tensor("w", {1}, 0, 0).Tensor("w", {1}, 0, 32),
       "the tensor `w` twice"},
      {OneTensor({3}, 0, uint64_t{1} << 62), "tensor `w` goes to byte 4611686018427387980 of"},
      {OneTensor({3}, 0, ~uint64_t{0} - 31), "tensor `w` goes to byte 18446744073709551660 of"},
      {OneTensor({1 << 24, 1 << 24}, 0, 0), "tensor `w` has the sizes (16777216, 16777216)"},
      {OneTensor({~uint64_t{0}}, 0, 0), "has the sizes (18446744073709551615)"},
      {OneTensor({0, uint64_t{1} << 48}, 0, 0), "has the sizes (0, 281474976710656)"},
      {OneTensor({uint64_t{1} << 47, uint64_t{1} << 47, 0}, 0, 0), "has the sizes"},
      {OneTensor({2}, 0, 3), "tensor `w` begins 3 bytes beyond the alignment"},
      {OneTensor({2}, 99, 0), "tensor `w`: GGML type 99 is not known here: F32 (0), F16 (1), "},
      {OneTensor({32}, 4, 0), "GGML type 4 is not known here"},
      {OneTensor({33, 2}, 2, 0), "the rows of tensor `w`, (2, 33), are no whole blocks of Q4_0"},
      {OneTensor({2, 32}, 2, 0), "the rows of tensor `w`, (32, 2), are no whole blocks of Q4_0"},
      {OneTensor({}, 12, 0), "the rows of tensor `w`, (), are no whole blocks of Q4_K"},
      {OneTensor({1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0), "tensor `w` has 9 axes"},
      {GgufBytes().Start(2, 0).Tensor("a", {9}, 0, 0).Tensor("b", {1}, 0, 32),
       "tensor `b` begins at byte 32 of the data, within tensor `a`"},
      {GgufBytes().Start(2, 0).Tensor("a", {1}, 0, 0).Tensor("b", {2}, 0, 0),
       "begins at byte 0 of the data, within tensor"},
      {GgufBytes().Start(1, 0).Tensor("\x1b[2J\xff", {1}, 0, 1), "tensor `?[2J?` begins 1"},
  };
  for (const auto& c : cases) EXPECT_THAT(GgufComplaint(c.bytes.bytes, 200), HasSubstr(c.says));
  EXPECT_EQ(GgufComplaint(OneTensor({1, 1, 1, 1, 1, 1, 1, 1}, 0, 0).bytes, 200), "");
  EXPECT_EQ(GgufComplaint(OneTensor({0}, 12, 0).bytes, 200), "");
  // Tensors may touch, and those without bytes may lie anywhere.
  EXPECT_EQ(GgufComplaint(GgufBytes()
                              .Start(4, 0)
                              .Tensor("a", {16}, 0, 32)
                              .Tensor("b", {8}, 0, 0)
                              .Tensor("c", {0}, 0, 64)
                              .Tensor("d", {0}, 0, 0)
                              .bytes,
                          200),
            "");
}

TEST(GgufHeader, ArraysAreNestedEightDeep) {
  for (const int depth : {1, 7, 8, 9, 100'000}) {
    GgufBytes b;
    b.Start(0, 1).Key("a", GgufType::kArray);
    for (int i = 1; i < depth; ++i) b.Array(GgufType::kArray, 1);
    b.Array(GgufType::kUint8, 1).Element<uint8_t>(5);
    if (depth > kMostGgufDepth) {
      EXPECT_THAT(GgufComplaint(b.bytes), HasSubstr("arrays in 9 arrays"));
      continue;
    }
    const auto header = ParseGguf(b.bytes, b.bytes.size());
    ASSERT_TRUE(header.ok()) << header.status();
    GgufValue value = header->values[0].value;
    for (int i = 0; i < depth; ++i) value = ElementsOf(value).at(0);
    EXPECT_EQ(std::get<uint64_t>(value), 5u);
  }
}

// A file that ends early is wrong, and a header of which the beginning was read is not.
TEST(GgufHeader, CutOffAtEveryByte) {
  GgufBytes b;
  b.Start(2, 4).Alignment(32);
  b.Key("text", GgufType::kString).Text("abc");
  b.Key("n", GgufType::kArray).Array(GgufType::kArray, 2).Array(GgufType::kInt32, 2);
  b.Element<int32_t>(1).Element<int32_t>(2).Array(GgufType::kString, 2).Text("x").Text("yz");
  b.Key("f", GgufType::kFloat64).Element(1.5);
  b.Tensor("a", {2, 3}, 0, 0).Tensor("b", {32}, 8, 32);
  const uint64_t file_bytes = (b.bytes.size() + 31) / 32 * 32 + 32 + 34;
  ASSERT_TRUE(ParseGguf(b.bytes, file_bytes).ok());
  for (size_t n = 0; n < b.bytes.size(); ++n) {
    const std::string part = b.bytes.substr(0, n);
    EXPECT_THAT(GgufComplaint(part), AllOf(HasSubstr("the GGUF file"), HasSubstr("ends"))) << n;
    const auto more = ParseGguf(part, file_bytes);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kOutOfRange) << n << ": " << more.status();
  }
  for (uint64_t n = b.bytes.size(); n < file_bytes; ++n)
    EXPECT_THAT(StatusText(ParseGguf(b.bytes, n).status()), HasSubstr("goes to byte")) << n;
}

// A header may have a hundred million bytes, whatever the file has.
TEST(GgufHeader, EndsWithinItsLimit) {
  constexpr uint64_t kFile = uint64_t{1} << 40;
  const auto says = [](std::string_view start) {
    return StatusText(ParseGguf(start, kFile).status());
  };
  EXPECT_THAT(says(OneValue("a", GgufType::kArray).Array(GgufType::kUint8, 200'000'000).bytes),
              HasSubstr("an array of 200000000 elements"));
  EXPECT_THAT(says(OneValue("a", GgufType::kString).Put(uint64_t{100'000'000}).bytes),
              HasSubstr("the header of the GGUF file has more than 100000000 bytes"));
  EXPECT_THAT(says(GgufBytes().Start(0, 8'000'000).bytes), HasSubstr("ends before them"));
  const GgufBytes fits = OneValue("a", GgufType::kString).Put(uint64_t{99'000'000});
  EXPECT_EQ(ParseGguf(fits.bytes, kFile).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace uopd::client
