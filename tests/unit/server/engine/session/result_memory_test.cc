// SPDX-License-Identifier: MIT
#include "server/engine/session/result_memory.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(ResultMemoryTest, RemembersTheFirstResultOfAnId) {
  Quota quota("limits.session_bytes", 1 << 20);
  ResultMemory memory(quota);
  const Digest program = HashBytes("p");
  EXPECT_EQ(*memory.Find(1, program), nullptr);
  memory.Remember(1, program, {{"first"}}, {});
  memory.Remember(1, program, {{"second"}}, {});
  EXPECT_EQ((*memory.Find(1, program))->maybe_result->data[0], "first");
  EXPECT_EQ(memory.Find(1, HashBytes("q")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ResultMemoryTest, DataAreBoundedByBytes) {
  Quota quota("limits.session_bytes", int64_t{1} << 30);
  ResultMemory memory(quota);
  const Digest program = HashBytes("p");
  const auto has_data = [&](uint64_t id) {
    const auto known = memory.Find(id, program);
    return *known != nullptr && (*known)->maybe_result != nullptr;
  };
  // A client may have all steps of a loop on the way.
  for (uint64_t id = 1; id <= 200; ++id) memory.Remember(id, program, {{"x"}}, {});
  EXPECT_TRUE(has_data(1));
  for (uint64_t id = 300; id < 310; ++id) {
    memory.Remember(id, program, {{std::string(1 << 20, 'x')}}, {});
  }
  EXPECT_FALSE(has_data(309 - (ResultMemory::kMaxBytes >> 20)));
  EXPECT_TRUE(has_data(310 - (ResultMemory::kMaxBytes >> 20)));
  memory.Remember(400, program, {{std::string(ResultMemory::kMaxBytes + 1, 'x')}}, {{7, 3, 5}});
  EXPECT_FALSE(has_data(400));
  EXPECT_GE(quota.used(), int64_t{ResultMemory::kMaxBytes});
  EXPECT_LT(quota.used(), int64_t{ResultMemory::kMaxBytes} + (1 << 20));
  EXPECT_TRUE(has_data(309));
}

// Nothing takes a remembered result away when its session needs memory. So the results must leave
// most of a small session free.
TEST(ResultMemoryTest, ASmallSessionKeepsLittle) {
  Quota quota("limits.session_bytes", 1 << 20);
  ResultMemory memory(quota);
  const Digest program = HashBytes("p");
  for (uint64_t id = 1; id <= 40; ++id)
    memory.Remember(id, program, {{std::string(10'000, 'x')}}, {});
  EXPECT_GT(quota.used(), 40'000);
  EXPECT_LT(quota.used(), 100'000);
  EXPECT_NE((*memory.Find(40, program))->maybe_result, nullptr);
  EXPECT_EQ((*memory.Find(1, program))->maybe_result, nullptr);
}

TEST(ResultMemoryTest, AResultWithoutDataIsKeptAsLongAsItsId) {
  Quota quota("limits.session_bytes", 1 << 20);
  ResultMemory memory(quota);
  const Digest program = HashBytes("p");
  memory.Remember(1, program, {{"x"}}, {});
  for (uint64_t id = 2; id <= ResultMemory::kMaxIds; ++id) memory.Remember(id, program, {}, {});
  for (uint64_t id = 1; id <= ResultMemory::kMaxIds; ++id) {
    const ResultMemory::Known* known = *memory.Find(id, program);
    ASSERT_NE(known, nullptr);
    ASSERT_NE(known->maybe_result, nullptr) << id;
    EXPECT_EQ(known->maybe_result->data.size(), id == 1 ? 1u : 0u);
  }
}

TEST(ResultMemoryTest, AnIdIsKnownLongerThanItsData) {
  Quota quota("limits.session_bytes", 1 << 20);
  ResultMemory memory(quota);
  const Digest program = HashBytes("p");
  memory.Remember(1, program, {{std::string(ResultMemory::kMaxBytes + 1, 'x')}}, {{7, 3, 5}});
  memory.RememberLoss(2, program, absl::DataLossError("ended"));
  const ResultMemory::Known* known = *memory.Find(1, program);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->sources[0].handle, 7u);
  EXPECT_EQ(known->bytes, ResultMemory::kMaxBytes + 1);
  EXPECT_EQ((*memory.Find(2, program))->lost.code(), absl::StatusCode::kDataLoss);
  for (uint64_t id = 10; id < 10 + ResultMemory::kMaxIds; ++id) {
    memory.Remember(id, program, {{"x"}}, {});
  }
  EXPECT_EQ(memory.size(), ResultMemory::kMaxIds);
  EXPECT_GT(quota.used(), 100 * static_cast<int64_t>(ResultMemory::kMaxIds));
  EXPECT_EQ(*memory.Find(1, program), nullptr);
}

}  // namespace
}  // namespace uopd::engine
