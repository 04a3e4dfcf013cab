// SPDX-License-Identifier: MIT
#include "core/base/target/target.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace uopd {
namespace {

// A field that the key forgot would give two devices each other's kernels.
TEST(TargetTest, EveryFieldIsPartOfTheKey) {
  const std::vector<std::function<void(Target&)>> changes = {
      [](Target&) {},
      [](Target& t) { t.kind = "x"; },
      [](Target& t) { t.arch = "x"; },
      [](Target& t) { t.features = "x"; },
      [](Target& t) { t.toolchain = "x"; },
      [](Target& t) { t.format = CodeFormat::kC; },
      [](Target& t) { t.blocks = true; },
      [](Target& t) { t.shuffles = true; },
      [](Target& t) { t.matrix_loads = true; },
      [](Target& t) { t.async_copies = true; },
      [](Target& t) { t.bulk_copies = true; },
      [](Target& t) { t.narrow_index = true; },
      [](Target& t) { t.units = 132; },
      [](Target& t) { t.vector_lanes = 4; },
      [](Target& t) { t.has_fma = false; },
      [](Target& t) { t.dtypes = {DtypeNumber::F32}; },
      [](Target& t) { t.matrix_instructions = {{"x", 1, 2, 3}}; },
      [](Target& t) { t.matrix_instructions = {{"x", 1, 2, 3, DtypeNumber::I8}}; },
      [](Target& t) { t.vector_bytes = 64; },
      [](Target& t) { t.vector_registers = 32; },
      [](Target& t) { t.private_bytes = 1; },
      [](Target& t) { t.caches[0].bytes = 1; },
      [](Target& t) { t.caches[1].shared_by = 2; },
      [](Target& t) { t.threads = 2; },
      [](Target& t) { t.warp_lanes = 32; },
      [](Target& t) { t.max_buffers = 8; },
      [](Target& t) { t.max_grid[2] = 2; },
      [](Target& t) { t.max_block[0] = 2; },
      [](Target& t) { t.max_block_threads = 2; },
      [](Target& t) { t.shared_bytes = 1; },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    Target target;
    change(target);
    EXPECT_TRUE(keys.insert(target.Key()).second) << target.Key();
  }
}

// The third level is no thread's own, also where a virtual machine has two threads.
TEST(TargetTest, AThreadHasItsPartOfTheSecondLevel) {
  Target target;
  target.caches = {{32 << 10, 1}, {1 << 20, 1}, {32 << 20, 2}};
  EXPECT_EQ(target.OwnCacheBytes(), 1 << 20);
  target.caches = {{32 << 10, 2}, {2 << 20, 2}, {32 << 20, 16}};
  EXPECT_EQ(target.OwnCacheBytes(), 1 << 20);
  target.caches = {{128 << 10, 1}};
  EXPECT_EQ(target.OwnCacheBytes(), 128 << 10);
  target.caches.clear();
  EXPECT_EQ(target.OwnCacheBytes(), 256 << 10);
}

TEST(DtypeNumberSetTest, HasWhatItWasMadeOf) {
  constexpr DtypeNumberSet set{DtypeNumber::Void, DtypeNumber::F64};
  EXPECT_TRUE(set.Has(DtypeNumber::Void));
  EXPECT_TRUE(set.Has(DtypeNumber::F64));
  EXPECT_FALSE(set.Has(DtypeNumber::F32));
  EXPECT_EQ(Name(DtypeNumber::BF16), "bf16");
}

}  // namespace
}  // namespace uopd
