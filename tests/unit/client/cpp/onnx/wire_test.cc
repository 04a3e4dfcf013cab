// SPDX-License-Identifier: MIT
// The wire format of protobuf.
#include "client/cpp/onnx/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tests/support/onnx/wire_tree.h"

namespace uopd::client::onnx {
namespace {

using test::Int;
using test::Text;
using ::testing::HasSubstr;

// What reading all fields of a message says.
std::string WireComplaint(std::string_view bytes) {
  WireSource source(bytes);
  const auto counts = CountFields(WireMessage(source, 0, bytes.size()));
  if (counts.ok()) return "";
  EXPECT_EQ(counts.status().code(), absl::StatusCode::kInvalidArgument) << counts.status();
  return StatusText(counts.status());
}

// A file without a name.
class WireFileOfBytes {
 public:
  explicit WireFileOfBytes(std::string_view bytes) : fd_(memfd_create("onnx", MFD_CLOEXEC)) {
    EXPECT_EQ(write(fd_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    auto file = RegularFile::Open(Cat("/proc/self/fd/", fd_.get()));
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  const RegularFile& file() const { return file_; }
  void Shorten(uint64_t bytes) { ASSERT_EQ(ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0); }

 private:
  UniqueFd fd_;
  RegularFile file_;
};

TEST(OnnxWire, ReadsFieldsOfEveryType) {
  const std::string bytes =
      test::Written({Int(1, 300), Int(2, -1), test::Double(3, 1.5), Text(4, "abc"),
                     test::Float(5, 2.5f), Int((1 << 29) - 1, 0)});
  WireSource source(bytes);
  WireMessage in(source, 0, bytes.size());
  std::vector<WireField> fields;
  while (in.more()) {
    const auto field = in.Next();
    ASSERT_TRUE(field.ok()) << field.status();
    EXPECT_EQ(field->at, fields.empty() ? 0 : fields.back().end);
    fields.push_back(*field);
  }
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(fields[0].value, 300u);
  EXPECT_EQ(fields[1].value, ~uint64_t{0});
  EXPECT_EQ(fields[2].type, WireType::kFixed64);
  EXPECT_EQ(fields[2].value, 0x3ff8000000000000u);
  EXPECT_EQ(fields[3].type, WireType::kBytes);
  EXPECT_EQ(bytes.substr(fields[3].begin, fields[3].end - fields[3].begin), "abc");
  EXPECT_EQ(fields[4].type, WireType::kFixed32);
  EXPECT_EQ(fields[4].value, 0x40200000u);
  EXPECT_EQ(fields[5].number, (1u << 29) - 1);
  const auto counts = CountFields(WireMessage(source, 0, bytes.size()));
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ((*counts)[1], 1u);
  EXPECT_EQ((*counts)[6], 0u);
}

TEST(OnnxWire, RefusesWhatIsNoMessage) {
  struct {
    std::string bytes;
    std::string_view says;
  } const cases[] = {
      {std::string("\0\0", 2), "the field at byte 0 has the number 0"},
      {"\x80\x80\x80\x80\x10\x01", "the field at byte 0 has the number 536870912"},
      {"\x08\x01\x0b\x0c", "field 1 at byte 2 is a group"},
      {"\x0c", "field 1 at byte 0 is a group"},
      {"\x0e", "field 1 at byte 0 has the unknown wire type 6"},
      {"\x0f", "field 1 at byte 0 has the unknown wire type 7"},
      {"\x08", "the number at byte 1 goes beyond its message, which ends at byte 1"},
      {"\x08\x80", "the number at byte 1 goes beyond"},
      {"\x80", "the number at byte 0 goes beyond"},
      {"\x09\x01\x01\x01\x01\x01\x01\x01", "the number at byte 1 goes beyond"},
      {"\x0d\x01\x01\x01", "the number at byte 1 goes beyond"},
      {"\x0a\x02x", "field 1 at byte 0 has 2 bytes and goes beyond its message"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "has 18446744073709551615 bytes and goes"},
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "byte 1 has more than 64 bits"},
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01", "byte 1 has more than 64 bits"},
  };
  for (const auto& c : cases) EXPECT_THAT(WireComplaint(c.bytes), HasSubstr(c.says)) << c.says;
  EXPECT_EQ(WireComplaint("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "");
  EXPECT_EQ(WireComplaint(std::string("\x08\x80\x00", 3)), "");  // longer than need be
  EXPECT_EQ(WireComplaint(""), "");
}

TEST(OnnxWire, NamesTheTypeThatAFieldNeeds) {
  WireField field{.number = 3, .type = WireType::kFixed32, .at = 7};
  EXPECT_TRUE(NeedType(field, WireType::kFixed32).ok());
  EXPECT_EQ(StatusText(NeedType(field, WireType::kBytes)),
            "field 3 at byte 7 is 4 bytes, not bytes with their length");
}

// Files are read through a window, which a field may cross everywhere.
TEST(OnnxWire, ReadsFilesThroughAWindow) {
  std::vector<test::WireTree> trees;
  for (int i = 0; i < 40; ++i) {
    trees.push_back(Int(1, int64_t{1} << i));
    trees.push_back(Text(2, std::string(static_cast<size_t>(i), 'x')));
    trees.push_back(test::Double(3, i));
  }
  const std::string bytes = test::Written(trees);
  const WireFileOfBytes file(bytes);
  for (const uint64_t window : {10u, 11u, 16u, 64u, 100'000u}) {
    Arena kept;
    WireSource from_file(file.file(), &kept, window), from_memory(bytes);
    EXPECT_TRUE(from_file.copies());
    EXPECT_FALSE(from_memory.copies());
    WireMessage a(from_file, 0, bytes.size()), b(from_memory, 0, bytes.size());
    while (b.more()) {
      const auto x = a.Next(), y = b.Next();
      ASSERT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
      ASSERT_EQ(x->value, y->value);
      ASSERT_EQ(x->end, y->end);
      const auto text = from_file.Keep(x->begin, x->end);
      ASSERT_TRUE(text.ok()) << text.status();
      ASSERT_EQ(*text, std::string_view(bytes).substr(x->begin, x->end - x->begin));
    }
    EXPECT_FALSE(a.more());
  }
}

TEST(OnnxWire, FilesThatBecomeShorterAreErrors) {
  WireFileOfBytes file(std::string(1000, '\x08'));
  WireSource source(file.file(), nullptr, 16);
  ASSERT_TRUE(source.Look(0, 10).ok());
  file.Shorten(20);
  EXPECT_EQ(source.Look(15, 10).status().code(), absl::StatusCode::kDataLoss);
  char out[4];
  EXPECT_EQ(source.Copy(18, out).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(source.Copy(16, out).ok());
}

}  // namespace
}  // namespace uopd::client::onnx
