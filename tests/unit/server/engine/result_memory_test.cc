// SPDX-License-Identifier: MIT
#include "server/engine/result_memory.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(ResultMemoryTest, RemembersTheFirstResultOfAnId) {
  ResultMemory memory;
  const Digest program = HashBytes("p");
  EXPECT_EQ(*memory.Find(1, program), nullptr);
  memory.Remember(1, program, {{"first"}});
  memory.Remember(1, program, {{"second"}});
  EXPECT_EQ((*memory.Find(1, program))->data[0], "first");
  EXPECT_EQ(memory.Find(1, HashBytes("q")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ResultMemoryTest, IsBoundedInNumberAndBytes) {
  ResultMemory memory;
  const Digest program = HashBytes("p");
  for (uint64_t id = 1; id <= 200; ++id) memory.Remember(id, program, {{"x"}});
  EXPECT_EQ(memory.size(), ResultMemory::kMaxResults);
  EXPECT_EQ(*memory.Find(1, program), nullptr);
  EXPECT_NE(*memory.Find(200, program), nullptr);
  for (uint64_t id = 300; id < 310; ++id) {
    memory.Remember(id, program, {{std::string(1 << 20, 'x')}});
  }
  EXPECT_EQ(memory.size(), ResultMemory::kMaxBytes >> 20);
  memory.Remember(400, program, {{std::string(ResultMemory::kMaxBytes + 1, 'x')}});
  EXPECT_EQ(*memory.Find(400, program), nullptr);
}

}  // namespace
}  // namespace uopd::engine
