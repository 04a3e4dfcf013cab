// SPDX-License-Identifier: MIT
#include "server/engine/base/recent_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RecentFailuresTest : public ::testing::Test {
 protected:
  static Digest KeyOf(int i) { return HashBytes(Cat("key ", i)); }
  int64_t now_us_ = 1'000'000'000;
  RecentFailures failures_{
      {.unsupported = std::chrono::seconds(300), .compiler = std::chrono::seconds(30)},
      [this] { return now_us_; }};
};

TEST_F(RecentFailuresTest, EachKindHasItsLife) {
  const absl::Status no = absl::UnimplementedError("no f64 here");
  failures_.Add(FailureKind::kUnsupported, KeyOf(1), no);
  failures_.Add(FailureKind::kCompiler, KeyOf(2), absl::InternalError("refused"));
  failures_.Add(FailureKind::kTuning, KeyOf(3), absl::InternalError("slow"));  // a life of 0
  now_us_ += 29'000'000;
  const auto found = failures_.Find(FailureKind::kUnsupported, KeyOf(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(StatusText(*found), HasSubstr("no f64 here"));
  EXPECT_THAT(StatusText(*found), HasSubstr("29 s ago"));
  EXPECT_TRUE(failures_.Find(FailureKind::kCompiler, KeyOf(2)));
  EXPECT_FALSE(failures_.Find(FailureKind::kCompiler, KeyOf(1)));  // of another kind
  EXPECT_FALSE(failures_.Find(FailureKind::kTuning, KeyOf(3)));
  EXPECT_EQ(failures_.List().size(), 2u);
  EXPECT_THAT(failures_.Counts(), ElementsAre(1, 1, 0));
  now_us_ += 2'000'000;
  EXPECT_THAT(failures_.Counts(), ElementsAre(1, 0, 0)) << "also before anybody looks for it";
  EXPECT_FALSE(failures_.Find(FailureKind::kCompiler, KeyOf(2)));
  EXPECT_EQ(failures_.List().size(), 1u);
  now_us_ += 300'000'000;
  EXPECT_FALSE(failures_.Find(FailureKind::kUnsupported, KeyOf(1)));
}

TEST_F(RecentFailuresTest, AreForgottenWhenSomebodySaysSo) {
  for (int i = 0; i < 10; ++i)
    failures_.Add(FailureKind::kCompiler, KeyOf(i), absl::InternalError("refused"));
  EXPECT_EQ(failures_.Clear(KeyOf(3).Hex()), 1u);
  EXPECT_FALSE(failures_.Find(FailureKind::kCompiler, KeyOf(3)));
  EXPECT_TRUE(failures_.Find(FailureKind::kCompiler, KeyOf(4)));
  EXPECT_EQ(failures_.Clear(""), 9u);
  EXPECT_EQ(failures_.Clear(""), 0u);
}

TEST_F(RecentFailuresTest, StayBoundedAndKeepTheNewest) {
  const int many = 3 * static_cast<int>(RecentFailures::kMaxEntries);
  for (int i = 0; i < many; ++i) {
    now_us_ += 1;
    failures_.Add(FailureKind::kCompiler, KeyOf(i), absl::InternalError("refused"));
  }
  EXPECT_LE(failures_.List().size(), RecentFailures::kMaxEntries);
  EXPECT_TRUE(failures_.Find(FailureKind::kCompiler, KeyOf(many - 1)));
  EXPECT_FALSE(failures_.Find(FailureKind::kCompiler, KeyOf(0)));
}

TEST_F(RecentFailuresTest, OnlyWhatWouldHappenAgainIsAFailureOfAKind) {
  EXPECT_EQ(KindOfCompileFailure(absl::UnimplementedError("")), FailureKind::kUnsupported);
  EXPECT_EQ(KindOfCompileFailure(absl::InternalError("")), FailureKind::kCompiler);
  EXPECT_FALSE(KindOfCompileFailure(InQuarantine(absl::InternalError("crashed"))));
  for (const absl::Status& status :
       {absl::OkStatus(), absl::CancelledError(""), absl::DeadlineExceededError(""),
        absl::UnavailableError(""), absl::ResourceExhaustedError(""),
        absl::InvalidArgumentError("")})
    EXPECT_FALSE(KindOfCompileFailure(status));
  // A frame around it changes nothing.
  EXPECT_FALSE(KindOfCompileFailure(WithFrame(InQuarantine(absl::InternalError("x")), "doing")));
}

}  // namespace
}  // namespace uopd::engine
