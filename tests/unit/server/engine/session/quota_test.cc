// SPDX-License-Identifier: MIT
#include "server/engine/session/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

TEST(QuotaTest, TheBoundThatIsReachedIsNamed) {
  Quota total("limits.total_bytes", 100);
  Quota one("limits.session_bytes", 80, &total), two("limits.session_bytes", 80, &total);
  EXPECT_TRUE(one.Take(70).ok());
  EXPECT_THAT(StatusText(one.Take(11)), HasSubstr("limits.session_bytes (80)"));
  const absl::Status over = two.Take(31);
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(over), HasSubstr("limits.total_bytes (100)"));
  EXPECT_EQ(two.used(), 0);  // nothing is taken in part
  EXPECT_TRUE(two.Take(30).ok());
  EXPECT_EQ(total.used(), 100);
}

TEST(QuotaTest, HugeSizesDoNotWrap) {
  Quota quota("q", 100);
  EXPECT_TRUE(quota.Take(60).ok());
  EXPECT_FALSE(quota.Take(INT64_MAX).ok());
  EXPECT_EQ(quota.used(), 60);
  quota.set_limit(10);
  EXPECT_FALSE(quota.Take(0 + 1).ok());
}

TEST(QuotaTest, ChargesGiveBackOnce) {
  Quota total("t", 100), quota("q", 100, &total);
  {
    auto charge = Charge::Take(quota, 40, ByteClass::kBuffers);
    ASSERT_TRUE(charge.ok());
    Charge moved = *std::move(charge);
    EXPECT_EQ(total.used(), 40);
    moved = *Charge::Take(quota, 10, ByteClass::kBuffers);
    EXPECT_EQ(total.used(), 10);
  }
  EXPECT_EQ(quota.used(), 0);
  EXPECT_EQ(total.used(), 0);
}

TEST(QuotaTest, FreeBesideIsThatOfTheFullestQuota) {
  Quota total("limits.total_bytes", 1000), quota("limits.session_bytes", 400, &total);
  EXPECT_EQ(quota.FreeBeside(4), 300);
  const Charge mine = *Charge::Take(quota, 100, ByteClass::kBuffers);
  EXPECT_EQ(quota.FreeBeside(4), 200);
  const Charge others = *Charge::Take(total, 600, ByteClass::kBuffers);
  EXPECT_EQ(quota.FreeBeside(4), 50);
}

// Nobody loses kept values for a charge that they could not make possible.
TEST(QuotaTest, ReclaimsOnlyWhatHelps) {
  Quota total("limits.total_bytes", 1000), quota("limits.session_bytes", 400, &total);
  int asked = 0;
  auto kept = std::make_unique<Charge>(*Charge::Take(quota, 100, ByteClass::kKept));
  for (Quota* q : {&quota, &total}) {
    q->set_reclaim([&] {
      ++asked;
      return std::exchange(kept, nullptr) != nullptr;
    });
  }
  const Charge buffers = *Charge::Take(quota, 200, ByteClass::kBuffers);
  EXPECT_FALSE(quota.Take(201).ok());
  EXPECT_FALSE(quota.Take(5000).ok());
  EXPECT_FALSE(total.Take(801).ok());
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(quota.Take(200).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(total.used(), 400);
  EXPECT_FALSE(total.Take(601).ok());
  EXPECT_EQ(asked, 1);
}

TEST(QuotaTest, WhatIsChargedHereDoesNotCountInLargerQuotas) {
  Quota total("total", 100);
  Quota session("session", 50, &total);
  {
    auto shared = Charge::TakeHere(session, 40, ByteClass::kContents);
    ASSERT_TRUE(shared.ok());
    EXPECT_EQ(session.used(), 40);
    EXPECT_EQ(total.used(), 0);
    EXPECT_TRUE(
        absl::IsResourceExhausted(Charge::TakeHere(session, 11, ByteClass::kContents).status()));
    EXPECT_TRUE(absl::IsResourceExhausted(session.Take(11)));
    Charge moved = *std::move(shared);
    EXPECT_EQ(session.used(), 40);
  }
  EXPECT_EQ(session.used(), 0);
  EXPECT_EQ(total.used(), 0);
}

TEST(QuotaTest, ChargesAreCountedByClass) {
  Quota total("limits.total_bytes", 100), quota("limits.session_bytes", 100, &total);
  Gauge& answers = metrics::ClientBytes({"answers"});
  const double before = answers.value();
  {
    // Of what is there already, also beyond the limit.
    const Charge charge = Charge::Always(quota, 150, ByteClass::kAnswers);
    EXPECT_EQ(answers.value(), before + 150);
    EXPECT_EQ(total.used(), 150);
    EXPECT_FALSE(Charge::Take(quota, 1, ByteClass::kMessages).ok());
    EXPECT_FALSE(total.Take(1).ok());
  }
  EXPECT_EQ(answers.value(), before);
  EXPECT_EQ(total.used(), 0);
  EXPECT_EQ(quota.used(), 0);
}

}  // namespace
}  // namespace uopd::engine
