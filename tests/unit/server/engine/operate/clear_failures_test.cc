// SPDX-License-Identifier: MIT
// What an operator clears is one entry, in both lists, or all; an error clears nothing.
#include "server/engine/operate/clear_failures.h"

#include <gtest/gtest.h>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

Digest FailureId(uint8_t first, uint8_t second) {
  Digest out = HashBytes("what failed");
  out.bytes[0] = first;
  out.bytes[1] = second;
  return out;
}

class ClearFailuresTest : public ::testing::Test {
 protected:
  static std::unique_ptr<worker::ForkServer> WithoutForks() {
    worker::ForkServer::Options options;
    options.program = "/does/not/exist";
    return *worker::ForkServer::Start(options);
  }
  void Remember(const Digest& id) {
    failures_.Add(FailureKind::kTuning, id, absl::InternalError("failed"));
  }
  void Refuse(const Digest& id) { workers_.compile().quarantine().Add({id, "crashed", 1}); }
  size_t Left() { return failures_.List().size() + workers_.ListQuarantine().size(); }

  const std::unique_ptr<worker::ForkServer> forks_ = WithoutForks();
  Config config_;
  cache::Store store_{1 << 20};
  const std::vector<std::string> devices_ = {"CPU:0"};
  Workers workers_{*forks_, config_, devices_, 1, store_};
  RecentFailures failures_{{.tuning = std::chrono::hours(1)}};
};

TEST_F(ClearFailuresTest, ClearsOneFromBothLists) {
  Remember(FailureId(0xaa, 1));
  Refuse(FailureId(0xaa, 1));  // the same job
  Remember(FailureId(0xbb, 1));
  Refuse(FailureId(0xcc, 1));
  EXPECT_EQ(*ClearFailures(failures_, &workers_, "aa"), 2u);
  EXPECT_EQ(*ClearFailures(failures_, &workers_, "bb"), 1u);
  EXPECT_EQ(*ClearFailures(failures_, &workers_, FailureId(0xcc, 1).Hex()), 1u);
  EXPECT_EQ(Left(), 0u);
  EXPECT_EQ(*ClearFailures(failures_, &workers_, ""), 0u);
}

TEST_F(ClearFailuresTest, ClearsAll) {
  for (uint8_t i = 0; i < 5; ++i) {
    Remember(FailureId(0xaa, i));
    Refuse(FailureId(0xaa, i));
  }
  EXPECT_EQ(*ClearFailures(failures_, &workers_, ""), 10u);
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ClearFailuresTest, AnErrorClearsNothing) {
  Remember(FailureId(0xaa, 1));
  Remember(FailureId(0xaa, 2));
  Remember(FailureId(0xbb, 1));
  Refuse(FailureId(0xbb, 2));
  for (const char* several : {"a", "aa", "b", "bb"}) {
    const absl::Status status = ClearFailures(failures_, &workers_, several).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << several << status;
  }
  for (const char* bad : {"AA", "xyz", "aa "}) {
    const absl::Status status = ClearFailures(failures_, &workers_, bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << status;
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(ClearFailures(failures_, &workers_, std::string(65, 'a')).status()));
  EXPECT_TRUE(absl::IsNotFound(ClearFailures(failures_, &workers_, "dd").status()));
  EXPECT_EQ(Left(), 4u);
}

TEST_F(ClearFailuresTest, ADaemonWithoutWorkersAnswersTheSame) {
  Remember(FailureId(0xaa, 1));
  EXPECT_TRUE(absl::IsNotFound(ClearFailures(failures_, nullptr, "dd").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ClearFailures(failures_, nullptr, "xyz").status()));
  EXPECT_EQ(*ClearFailures(failures_, nullptr, "aa"), 1u);
  EXPECT_EQ(*ClearFailures(failures_, nullptr, ""), 0u);
}

}  // namespace
}  // namespace uopd::engine
