// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_record.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/escaping.h"

namespace uopd::engine {
namespace {

TEST(TuningRecordTest, RoundTripsAndKnowsDamage) {
  const TuningRecord record = {.opts = {{codegen::OptKind::kVector, 3, 16},
                                        {codegen::OptKind::kThread, 0, 1 << 20},
                                        {codegen::OptKind::kPipeline, 2, 4, 1}},
                               .seconds = 1.25e-6,
                               .heuristic_seconds = std::numeric_limits<double>::infinity(),
                               .measured = 12,
                               .failed = 3};
  const std::string bytes = record.Encode();
  const auto back = TuningRecord::Decode(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->opts, record.opts);
  EXPECT_EQ(back->seconds, record.seconds);
  EXPECT_EQ(back->heuristic_seconds, record.heuristic_seconds);
  EXPECT_EQ(back->measured, 12);
  EXPECT_EQ(back->failed, 3);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(TuningRecord::Decode(bytes.substr(0, n)).status())) << n;
  }
  EXPECT_TRUE(absl::IsDataLoss(TuningRecord::Decode(bytes + "x").status()));
}

TEST(TuningRecordTest, AnOptOfALaterVersionIsNoDamage) {
  std::string bytes = TuningRecord{.opts = {{codegen::OptKind::kVector, 3, 16}}}.Encode();
  bytes[1] = 99;  // the kind of the opt
  const absl::Status status = TuningRecord::Decode(bytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(std::string(status.message()).starts_with("opt of kind 99 is of a later version"));
  // Bytes that are no record at all may begin like one.
  EXPECT_TRUE(absl::IsDataLoss(TuningRecord::Decode(bytes.substr(0, bytes.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(TuningRecord::Decode(bytes + "x").status()));
}

// Winners that earlier daemons found stay.
TEST(TuningRecordTest, TheBytesOfCachesStay) {
  const TuningRecord record = {
      .opts = {{codegen::OptKind::kVector, 3, 16}, {codegen::OptKind::kPipeline, 2, 4, 4}},
      .seconds = 1.25e-6,
      .heuristic_seconds = 2.5e-6,
      .measured = 12,
      .failed = 3};
  const std::string bytes =
      absl::HexStringToBytes("02030320100258f1d18dc7d896beda3ef1d18dc7d896bee23e1806");
  EXPECT_EQ(absl::BytesToHexString(record.Encode()), absl::BytesToHexString(bytes));
  const auto back = TuningRecord::Decode(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->opts, record.opts);
}

TEST(TuningRecordTest, NumbersThatNoOptHasAreDamage) {
  const TuningRecord record = {.opts = {{codegen::OptKind::kVector, 3, -1}}};
  EXPECT_TRUE(absl::IsDataLoss(TuningRecord::Decode(record.Encode()).status()));
}

}  // namespace
}  // namespace uopd::engine
