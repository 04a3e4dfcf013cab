// SPDX-License-Identifier: MIT
#include "core/base/target/speeds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/target/target.h"

namespace uopd {
namespace {

TEST(SpeedsTest, TextsReadBack) {
  for (const Speeds& speeds : {Speeds(), Speeds::OfGpu(), Speeds::OfGpu("sm_90a")})
    EXPECT_EQ(Speeds::FromText(speeds.Text()), speeds);
  const Speeds none = *Speeds::FromText("");
  for (const Speeds::Field& field : Speeds::Fields()) EXPECT_EQ(none.*field.value, 0);
  EXPECT_EQ(none.Text(), "");
  Speeds odd = none;
  odd.memory_bytes = 0.1;
  odd.clock_ghz = 1e-9;
  EXPECT_EQ(odd.Text(), "memory_bytes=0.1 clock_ghz=1e-09");
  EXPECT_EQ(Speeds::FromText(odd.Text()), odd);
}

TEST(SpeedsTest, OtherTextsAreRefused) {
  for (const char* text : {"x", "memory_bytes", "memory_bytes=", "memory_bytes=1x", "bytes=1",
                           "memory_bytes=1  clock_ghz=1", " ", "=1"})
    EXPECT_EQ(Speeds::FromText(text), std::nullopt) << text;
}

// The keys of caches have the speeds that decide code and that nothing else in the key tells.
TEST(SpeedsTest, SpeedsThatWereChangedArePartOfTheKey) {
  for (const bool blocks : {false, true}) {
    Target target;
    target.blocks = blocks;
    if (blocks) target.speeds = Speeds::OfGpu();
    const std::string usual = target.Key();
    EXPECT_EQ(usual.find("speeds="), std::string::npos);
    for (const Speeds::Field& field : Speeds::Fields()) {
      Target other = target;
      other.speeds.*field.value += 1;
      const bool decides = blocks || field.name != "clock_ghz";
      EXPECT_EQ(other.Key() != usual, decides) << field.name;
    }
  }
}

}  // namespace
}  // namespace uopd
