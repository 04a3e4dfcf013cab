// SPDX-License-Identifier: MIT
#include "server/engine/tune/quarantine_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using worker::QuarantineEntry;

// A clock that never shows the same time twice: entries are in the order of their times.
cache::NowFn Ticks() {
  return [now = int64_t{0}]() mutable { return ++now; };
}

TEST(QuarantineStoreTest, KeepsEntriesByPoolInOrder) {
  cache::Store store(1 << 20, Ticks());
  const QuarantineEntry a{HashBytes("a"), "crashed", 1'700'000'000}, b{HashBytes("b"), ""};
  {
    QuarantineStore first(store, "tuning");
    EXPECT_THAT(first.Load(), IsEmpty());
    first.Add(a);
    first.Add(b);
    first.Add(a);
  }
  EXPECT_THAT(QuarantineStore(store, "tuning").Load(), ElementsAre(a, b));
  EXPECT_THAT(QuarantineStore(store, "measure").Load(), IsEmpty());
  QuarantineStore(store, "tuning").Remove(a.job);
  EXPECT_THAT(QuarantineStore(store, "tuning").Load(), ElementsAre(b));
}

TEST(QuarantineStoreTest, TheOldestMakesRoom) {
  cache::Store store(1 << 20, Ticks());
  QuarantineStore quarantine(store, "tuning", 2);
  const auto entry = [](size_t i) { return QuarantineEntry{HashBytes(Cat(i)), "x"}; };
  for (size_t i = 0; i < 4; ++i) quarantine.Add(entry(i));
  EXPECT_THAT(quarantine.Load(), ElementsAre(entry(2), entry(3)));
}

TEST(QuarantineStoreTest, DamageIsNothing) {
  cache::Store store(1 << 20);
  ASSERT_TRUE(
      store.Put({"quarantine", Cat("tuning ", HashBytes("n").Hex()), "record=4"}, "noise", 1).ok());
  ASSERT_TRUE(store.Put({"quarantine", "tuning xyz", "record=4"}, "noise", 1).ok());
  QuarantineStore quarantine(store, "tuning");
  EXPECT_THAT(quarantine.Load(), IsEmpty());
  const QuarantineEntry a{HashBytes("a"), "crashed"};
  quarantine.Add(a);
  EXPECT_THAT(quarantine.Load(), ElementsAre(a));
}

}  // namespace
}  // namespace uopd::engine
