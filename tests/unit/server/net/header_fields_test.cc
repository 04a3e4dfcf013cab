// SPDX-License-Identifier: MIT
#include "server/net/header_fields.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/http2/frames.h"

namespace uopd::net {
namespace {

using test::http2::CallFields;
using test::http2::Field;

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

size_t Count(const std::string& block) {
  HeaderFields fields;
  fields.Receive(Bytes(block));
  return fields.fields();
}

TEST(HeaderFields, CountsEveryForm) {
  EXPECT_EQ(Count(""), 0U);
  EXPECT_EQ(Count("\x82\x86\xbe"), 3U) << "from the table";
  EXPECT_EQ(Count("\xff\x80\x01\x82"), 2U) << "from the table, an index of three bytes";
  EXPECT_EQ(Count("\x3f\xe1\x1f\x82"), 2U) << "a size of the table";
  EXPECT_EQ(Count(std::string("\x41\3abc\x82", 6)), 2U) << "a known name, kept";
  EXPECT_EQ(Count(std::string("\x40\1x\3abc\x82", 8)), 2U) << "a new name, kept";
  EXPECT_EQ(Count(std::string("\0\1x\3abc\x82", 8)), 2U) << "not kept";
  EXPECT_EQ(Count(std::string("\x10\1x\3abc\x82", 8)), 2U) << "never kept";
  EXPECT_EQ(Count(std::string("\x0f\x10\3abc\x82", 7)), 2U) << "an index of two bytes";
  EXPECT_EQ(Count(std::string("\0\0\0\0\0\0", 6)), 2U) << "no name, no value";
  EXPECT_EQ(Count(std::string("\0\1x\x83xyz\x82", 8)), 2U) << "compressed";
  EXPECT_EQ(Count(CallFields("/a.B/C")), 6U);
}

TEST(HeaderFields, TextOfAnyLengthIsSkipped) {
  // Whatever is in it: here what would be fields.
  for (const size_t size : {0, 1, 126, 127, 128, 255, 300, 16'510, 100'000}) {
    EXPECT_EQ(Count(Field("x", std::string(size, '\x82')) + "\x82"), 2U) << size;
  }
}

TEST(HeaderFields, ALengthThatIsNeverReachedIsOneField) {
  EXPECT_EQ(Count(std::string("\0\1x\x7f\xff\xff\xff\xff\x03", 9) + std::string(100'000, '\x82')),
            1U);
  EXPECT_EQ(Count(std::string("\0\1x\x7f", 4) + std::string(100'000, '\xff')), 1U);
}

TEST(HeaderFields, CutAnywhereTheCountIsTheSame) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::string block;
    for (auto parts = random() % 20; parts > 0; --parts) {
      if (random() % 2 == 0) {
        block += Field("name", std::string(random() % 300, 'v'));
      } else {
        for (auto n = random() % 5; n > 0; --n) block += static_cast<char>(random());
      }
    }
    HeaderFields fields;
    for (size_t at = 0; at < block.size();) {
      const size_t size = std::min<size_t>(1 + random() % 9, block.size() - at);
      fields.Receive(Bytes(block).subspan(at, size));
      at += size;
    }
    ASSERT_EQ(fields.fields(), Count(block)) << round;
  }
}

}  // namespace
}  // namespace uopd::net
