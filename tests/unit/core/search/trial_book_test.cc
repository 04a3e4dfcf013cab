// SPDX-License-Identifier: MIT
#include "core/search/trial_book.h"

#include <random>

#include "gtest/gtest.h"

namespace uopd::search {
namespace {

TEST(TrialBook, KeepsTimesByProgram) {
  TrialBook book;
  book.Add(HashBytes("a"), 1e-6);
  book.Add(HashBytes("b"), 0);
  book.Add(HashBytes("a"), 2e-6);
  auto read = TrialBook::Decode(book.Encode());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 2);
  EXPECT_EQ(read->Find(HashBytes("a")), 2e-6);
  EXPECT_EQ(read->Find(HashBytes("b")), 0);
  EXPECT_EQ(read->Find(HashBytes("c")), std::nullopt);
  EXPECT_EQ(read->Encode(), book.Encode());
}

TEST(TrialBook, IsBounded) {
  TrialBook book;
  for (size_t i = 0; i < TrialBook::kMost + 10; ++i) book.Add(HashBytes(std::to_string(i)), 1);
  EXPECT_EQ(book.size(), TrialBook::kMost);
  EXPECT_TRUE(TrialBook::Decode(book.Encode()).ok());
}

TEST(TrialBook, DamagedBytesAreDataLoss) {
  TrialBook book;
  book.Add(HashBytes("a"), 1e-6);
  book.Add(HashBytes("b"), 2e-6);
  const std::string bytes = book.Encode();
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_TRUE(absl::IsDataLoss(TrialBook::Decode(bytes.substr(0, n)).status())) << n;
  EXPECT_FALSE(TrialBook::Decode(bytes + "x").ok());
  EXPECT_FALSE(TrialBook::Decode("\xff\xff\xff\xff\x0f").ok()) << "a count of billions";
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = bytes;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    const auto read = TrialBook::Decode(bad);
    if (!read.ok()) continue;
    EXPECT_EQ(read->size(), 2);
  }
}

}  // namespace
}  // namespace uopd::search
