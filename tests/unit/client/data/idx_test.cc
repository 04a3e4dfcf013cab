// SPDX-License-Identifier: MIT
#include "client/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <unistd.h>

#include <filesystem>

#include "core/base/output_file.h"

namespace uopd::client {
namespace {

using ::testing::HasSubstr;

std::string Idx(std::vector<uint32_t> dims, const std::string& data, char type = 0x08) {
  std::string out = {0, 0, type, static_cast<char>(dims.size())};
  for (uint32_t d : dims) {
    for (int shift : {24, 16, 8, 0}) out += static_cast<char>(d >> shift & 0xff);
  }
  return out + data;
}

std::string Gzip(const std::string& in) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, in.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data())),
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST(IdxTest, ReadsPlainAndGzipped) {
  const std::string plain = Idx({2, 3}, "abcdef");
  for (const std::string& file : {plain, Gzip(plain)}) {
    auto a = ParseIdx(file);
    ASSERT_TRUE(a.ok()) << a.status();
    EXPECT_EQ(a->dims, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(a->bytes, "abcdef");
  }
}

TEST(IdxTest, SaysWhatIsWrong) {
  const std::string good = Idx({2, 3}, "abcdef"), packed = Gzip(good);
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;  // the checksum
  const std::pair<std::string, const char*> cases[] = {
      {"", "cut off"},
      {"<!DOCTYPE html>", "no IDX file"},
      {Idx({6}, "abcdef", 0x0d), "type 13"},
      {Idx({}, ""), "0 dimensions"},
      {good.substr(0, 7), "cut off in its header"},
      {good.substr(0, good.size() - 1), "announces 6 bytes and has 5"},
      {good + "x", "has 7"},
      {Idx({0xffffffff, 0xffffffff, 0xffffffff}, "x"), "announces"},
      {packed.substr(0, packed.size() - 9), "cut off"},
      {packed.substr(0, 3), "cut off"},
      {damaged, "damaged"},
      {"\x1f\x8bgarbage", "damaged"},
  };
  for (const auto& [file, what] : cases) {
    const absl::Status s = ParseIdx(file).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(StatusText(s), HasSubstr(what));
  }
}

TEST(IdxTest, BoundsWhatIsUnpacked) {
  const std::string bomb = Gzip(std::string(16 << 20, '\0'));
  ASSERT_LT(bomb.size(), 32u << 10);
  EXPECT_THAT(StatusText(ParseIdx(bomb, 1 << 20).status()), HasSubstr("over 1048576 bytes"));
}

class LoadExamplesTest : public ::testing::Test {
 protected:
  LoadExamplesTest() { std::filesystem::create_directories(folder_); }
  ~LoadExamplesTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& contents) {
    ASSERT_TRUE(WriteFile(folder_ + "/" + name, contents).ok());
  }

  const std::string folder_ = ::testing::TempDir() + "uopd_idx_" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                              std::to_string(getpid());
};

TEST_F(LoadExamplesTest, TakesEitherSpelling) {
  Write("train-images-idx3-ubyte.gz", Gzip(Idx({2, 1, 2}, "abcd")));
  Write("train-labels.idx1-ubyte", Idx({2}, "\x01\x02"));
  auto e = LoadExamples(folder_, "train");
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->count, 2);
  EXPECT_EQ(e->columns, 2);
  EXPECT_EQ(e->images, "abcd");
  EXPECT_EQ(e->labels, "\x01\x02");
}

TEST_F(LoadExamplesTest, NamesTheFileThatIsWrong) {
  EXPECT_EQ(LoadExamples(folder_, "train").status().code(), absl::StatusCode::kNotFound);
  Write("train-images-idx3-ubyte", "nonsense");
  EXPECT_THAT(StatusText(LoadExamples(folder_, "train").status()),
              HasSubstr("train-images-idx3-ubyte"));
  Write("train-images-idx3-ubyte", Idx({2, 1, 2}, "abcd"));
  Write("train-labels-idx1-ubyte", Idx({3}, "abc"));
  EXPECT_THAT(StatusText(LoadExamples(folder_, "train").status()),
              HasSubstr("2 images and 3 labels"));
  Write("train-labels-idx1-ubyte", Idx({1, 2}, "ab"));
  EXPECT_THAT(StatusText(LoadExamples(folder_, "train").status()),
              HasSubstr("2 dimensions, not 1"));
}

}  // namespace
}  // namespace uopd::client
