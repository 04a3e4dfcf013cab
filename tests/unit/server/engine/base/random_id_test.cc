// SPDX-License-Identifier: MIT
#include "server/engine/base/random_id.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace uopd::engine {
namespace {

TEST(RandomIdTest, Has32HexadecimalDigits) {
  const auto id = RandomId();
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->size(), 32u);
  EXPECT_EQ(id->find_first_not_of("0123456789abcdef"), std::string::npos) << *id;
}

// Every digit takes every value: none of the 128 bits is fixed.
TEST(RandomIdTest, NoDigitIsFixedAndNoIdComesTwice) {
  constexpr int kIds = 1000;
  std::set<std::string> ids;
  std::array<std::set<char>, 32> digits;
  for (int i = 0; i < kIds; ++i) {
    const std::string id = *RandomId();
    for (size_t d = 0; d < digits.size(); ++d) digits[d].insert(id[d]);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), static_cast<size_t>(kIds));
  for (const std::set<char>& values : digits) EXPECT_EQ(values.size(), 16u);
}

}  // namespace
}  // namespace uopd::engine
