// SPDX-License-Identifier: MIT
// Replies of Redis, whole, in pieces, and from servers that lie.
#include "cache/redis/resp.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/environment.h"

namespace uopd::cache {
namespace {

std::string Show(const RespValue& value) {
  switch (value.kind) {
    case RespKind::kNull:
      return "null";
    case RespKind::kInteger:
      return std::to_string(value.integer);
    case RespKind::kText:
      return "'" + value.text + "'";
    case RespKind::kError:
      return "error " + value.text;
    case RespKind::kArray:
    case RespKind::kPush:
      break;
  }
  std::string out = value.kind == RespKind::kPush ? "push[" : "[";
  for (const RespValue& inner : value.values) out += Show(inner) + " ";
  return out + "]";
}

struct Case {
  std::string bytes, shown;
};
const Case kReplies[] = {
    {"+OK\r\n", "'OK'"},
    {"-ERR no\r\n", "error ERR no"},
    {":-42\r\n", "-42"},
    {":9223372036854775807\r\n", "9223372036854775807"},
    {"$5\r\na\r\nbc\r\n", "'a\r\nbc'"},
    {"$0\r\n\r\n", "''"},
    {"$-1\r\n", "null"},
    {"*-1\r\n", "null"},
    {"_\r\n", "null"},
    {"#t\r\n", "1"},
    {"#f\r\n", "0"},
    {",1.5\r\n", "'1.5'"},
    {"(123456789012345678901\r\n", "'123456789012345678901'"},
    {"=6\r\ntxt:ab\r\n", "'ab'"},
    {"!5\r\nERR x\r\n", "error ERR x"},
    {"*3\r\n:1\r\n*1\r\n+a\r\n$-1\r\n", "[1 ['a' ] null ]"},
    {"*0\r\n", "[]"},
    {"~1\r\n:1\r\n", "[1 ]"},
    {"%1\r\n+k\r\n:2\r\n", "['k' 2 ]"},
    {">2\r\n+invalidate\r\n_\r\n", "push['invalidate' null ]"},
};

TEST(RespTest, EveryKindOfReplyInPiecesOfEverySize) {
  std::string all, shown;
  for (const Case& one : kReplies) {
    all += one.bytes;
    shown += one.shown + "\n";
  }
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    RespReader reader;
    std::string got;
    for (size_t at = 0; at < all.size(); at += piece) {
      reader.Feed(std::string_view(all).substr(at, piece));
      RespValue value;
      for (auto whole = reader.Next(value); whole.ok() && *whole; whole = reader.Next(value))
        got += Show(value) + "\n";
    }
    ASSERT_EQ(got, shown) << piece;
  }
}

TEST(RespTest, BadRepliesAreErrors) {
  const std::string cases[] = {
      "hello\r\n",
      "\r\n",
      ":x\r\n",
      ":1x\r\n",
      ":9223372036854775808\r\n",
      "$-2\r\n",
      "$3\r\nabcde",
      "=2\r\nab\r\n",
      "#x\r\n",
      "_x\r\n",
      "*100000000000\r\n",
      "%99999999\r\n",
      "$99999999999\r\n",
      std::string(70'000, 'x'),
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};
  for (const std::string& bytes : cases) {
    RespReader reader;
    reader.Feed(bytes);
    RespValue value;
    EXPECT_FALSE(reader.Next(value).ok()) << bytes.substr(0, 40);
  }
}

TEST(RespTest, ManySmallValuesAreBounded) {
  RespReader reader(RespLimits{.values = 100});
  std::string bytes = "*10\r\n";
  for (int i = 0; i < 10; ++i)
    bytes += "*10\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n";
  reader.Feed(bytes);
  RespValue value;
  EXPECT_FALSE(reader.Next(value).ok());
}

TEST(RespTest, CommandsAreArraysOfTexts) {
  EXPECT_EQ(WriteCommand(std::vector<std::string_view>{"GET", "", "a\r\n"}),
            "*3\r\n$3\r\nGET\r\n$0\r\n\r\n$3\r\na\r\n\r\n");
}

TEST(RespTest, MutatedRepliesNeverHarm) {
  std::mt19937_64 random(static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 5)));
  const int64_t cases = test::CasesFromEnvironment("UOPD_FUZZ_RESP", 20'000);
  int64_t bad = 0;
  for (int64_t i = 0; i < cases; ++i) {
    std::string bytes;
    for (uint64_t n = 1 + random() % 4; n > 0; --n)
      bytes += kReplies[random() % std::size(kReplies)].bytes;
    for (uint64_t n = random() % 4; n > 0; --n) {
      const char* marks = "*$%~>:+-_#=!,(\r\n0123456789";
      bytes[random() % bytes.size()] =
          random() % 2 == 0 ? marks[random() % 26] : static_cast<char>(random());
    }
    RespReader reader(RespLimits{.bytes = 1000, .values = 100});
    reader.Feed(bytes);
    RespValue value;
    absl::StatusOr<bool> whole = true;
    for (int n = 0; n < 100 && whole.ok() && *whole; ++n) whole = reader.Next(value);
    bad += whole.ok() ? 0 : 1;
  }
  EXPECT_GT(bad, cases / 10);
  EXPECT_LT(bad, cases);
}

}  // namespace
}  // namespace uopd::cache
