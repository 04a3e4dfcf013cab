// SPDX-License-Identifier: MIT
// GGUF files: opening them, and reading tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/support/gguf/gguf_bytes.h"
#include "uopd/gguf.h"

namespace uopd::client {
namespace {

using test::GgufBytes;
using ::testing::HasSubstr;

class GgufFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-gguf-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(std::string_view name = "a.gguf") const { return (folder_ / name).string(); }
  static void Put(const std::string& path, std::string_view contents) {
    std::ofstream(path, std::ios::binary) << contents;
  }
  // The file of a header and of the data behind it.
  static std::string With(std::string head, std::string_view data) {
    head.resize((head.size() + 31) / 32 * 32);
    return head += data;
  }

  std::filesystem::path folder_;
};

TEST_F(GgufFileTest, ReadsTensors) {
  GgufBytes b;
  b.Start(2, 1).Key("name", GgufType::kString).Text("x");
  b.Tensor("a", {3}, 24, 32).Tensor("b", {32}, 2, 0);
  Put(Path(), With(b.bytes, "0123456789abcdefgh..............xyz"));
  auto opened = GgufFile::Open(Path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufFile file = *std::move(opened);  // its strings stay where they are
  ASSERT_EQ(file.header().tensors.size(), 2u);
  EXPECT_EQ(std::get<std::string_view>(*file.header().Find("name")), "x");
  std::string a(3, '\0'), all(18, '\0'), wrong(4, '\0');
  ASSERT_TRUE(file.Read(file.header().tensors[0], a).ok());
  EXPECT_EQ(a, "xyz");
  ASSERT_TRUE(file.Read(file.header().tensors[1], all).ok());
  EXPECT_EQ(all, "0123456789abcdefgh");
  EXPECT_EQ(file.Read(file.header().tensors[0], wrong).code(), absl::StatusCode::kInvalidArgument);
}

// The header is read in parts that double.
TEST_F(GgufFileTest, ReadsLongHeaders) {
  for (const uint64_t count : {20'000, 50'000, 200'000}) {
    GgufBytes b;
    b.Start(1, 1).Key("tokens", GgufType::kArray).Array(GgufType::kString, count);
    for (uint64_t i = 0; i < count; ++i) b.Text(Cat("token ", i));
    b.Tensor("w", {2}, 24, 0);
    Put(Path(), With(b.bytes, "ab"));
    const auto file = GgufFile::Open(Path());
    ASSERT_TRUE(file.ok()) << file.status();
    GgufElements tokens(std::get<GgufArray>(*file->header().Find("tokens")));
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(std::get<std::string_view>(tokens.Next()), Cat("token ", i));
    EXPECT_EQ(tokens.left(), 0u);
    std::string w(2, '\0');
    ASSERT_TRUE(file->Read(file->header().tensors[0], w).ok());
    EXPECT_EQ(w, "ab");
  }
}

TEST_F(GgufFileTest, NamesFilesThatCannotBeRead) {
  const auto says = [&](const std::string& path) {
    return StatusText(GgufFile::Open(path).status());
  };
  EXPECT_EQ(GgufFile::Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(says(Path("none")), HasSubstr(Path("none")));
  EXPECT_THAT(says(folder_.string()), HasSubstr("is no regular file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(says(Path("pipe")), HasSubstr("is no regular file"));
  Put(Path(), "");
  EXPECT_THAT(says(Path()), HasSubstr(Cat("at byte 0 (while reading ", Path(), ")")));
  Put(Path(), "GGUFxxxxxxxxxxxx");
  EXPECT_THAT(says(Path()), HasSubstr(Cat("(while reading ", Path(), ")")));
  // A hole that a value claims.
  GgufBytes b;
  Put(Path(), b.Start(0, 1).Key("a", GgufType::kString).Put(uint64_t{150'000'000}).bytes);
  std::filesystem::resize_file(Path(), 300'000'000);
  EXPECT_THAT(says(Path()), HasSubstr("more than 100000000 bytes"));
}

TEST_F(GgufFileTest, AFileThatBecomesShorterIsAnError) {
  GgufBytes b;
  b.Start(1, 1).Key("name", GgufType::kString).Text("x");
  b.Tensor("w", {3}, 24, 0);
  Put(Path(), With(b.bytes, "abc"));
  const auto file = GgufFile::Open(Path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) - 1);
  std::string w(3, '\0');
  EXPECT_EQ(file->Read(file->header().tensors[0], w).code(), absl::StatusCode::kDataLoss);
  std::filesystem::resize_file(Path(), 0);
  EXPECT_EQ(std::get<std::string_view>(*file->header().Find("name")), "x");
  EXPECT_EQ(file->Read(file->header().tensors[0], w).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace uopd::client
