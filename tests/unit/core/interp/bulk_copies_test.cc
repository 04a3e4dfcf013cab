// SPDX-License-Identifier: MIT
// Copies of boxes of tensors to shared memory: what the interpreter computes and reports, and which
// orders of lines the verifier refuses.
#include <random>

#include "core/base/text.h"
#include "core/interp/interpreter.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/bulk_ring.h"

namespace uopd::interp {
namespace {

using testing::HasSubstr;
using tests::BulkRing;

using Words = std::vector<int32_t>;

absl::Status RunRing(const BulkRing& ring, Words& out, Words& in, bool verify = true) {
  tests::KernelLines k(ring.words());
  const ir::UOp linear = ring.Lines(k);
  if (verify) UOPD_TRY(ir::Verify(k.ctx, linear, ir::Level::kLinear));
  UOPD_ASSIGN(const Program program, Program::Make(k.ctx, linear, {}));
  out.assign(static_cast<size_t>(ring.steps * ring.words()), -1);
  std::vector<std::span<std::byte>> spans = {std::as_writable_bytes(std::span(out)),
                                             std::as_writable_bytes(std::span(in))};
  LaunchArguments arguments;
  arguments.block[0] = ring.words();
  arguments.buffers = spans;
  return interp::Run(program, arguments);
}

Words RandomMatrix(const BulkRing& ring) {
  std::mt19937 random(5);
  Words out(static_cast<size_t>(ring.rows * ring.columns));
  for (int32_t& v : out) v = static_cast<int32_t>(random() | 1);
  return out;
}

std::string Said(const BulkRing& ring, bool verify) {
  Words out, in = RandomMatrix(ring);
  return StatusText(RunRing(ring, out, in, verify));
}

// The pieces of 16 bytes of row r, whose order the hardware changes: piece p is at p ^ Mix(r).
int64_t Mix(int64_t span, int64_t r) {
  return span == 128 ? r % 8 : span == 64 ? r / 2 % 4 : r / 4 % 2;
}

TEST(BulkCopyTest, BoxesLieInSwizzledSpansAndAreZeroOutside) {
  for (const int64_t span : {128, 64, 32}) {
    for (const auto& [x, y] : {std::pair<int64_t, int64_t>{0, 0}, {-3, -5}, {33, 11}, {41, 2}}) {
      for (const int64_t parts : {1, 2, 3, 5}) {
        BulkRing ring{.span = span, .x = x, .y = y, .steps = 4, .parts = parts};
        Words out, in = RandomMatrix(ring);
        const absl::Status status = RunRing(ring, out, in);
        ASSERT_TRUE(status.ok()) << status;
        for (int64_t step = 0; step < ring.steps; ++step) {
          for (int64_t r = 0; r < BulkRing::kRows; ++r) {
            for (int64_t w = 0; w < span / 4; ++w) {
              const int64_t row = y + 8 * step + r, column = x + w;
              const bool inside =
                  row >= 0 && row < ring.rows && column >= 0 && column < ring.columns;
              const int64_t piece = w / 4 ^ Mix(span, r);
              ASSERT_EQ(
                  out[static_cast<size_t>(step * ring.words() + r * span / 4 + piece * 4 + w % 4)],
                  inside ? in[static_cast<size_t>(row * ring.columns + column)] : 0)
                  << span << ' ' << x << ' ' << step << ' ' << r << ' ' << w;
            }
          }
        }
      }
    }
  }
}

TEST(BulkCopyTest, WhatIsReadBeforeTheWaitIsReported) {
  EXPECT_THAT(Said({.wait = false}, true), HasSubstr("without a BULK_WAIT"));
  EXPECT_THAT(Said({.wait = false}, false), HasSubstr("on its way"));
}

TEST(BulkCopyTest, PhasesAreThoseOfTheRing) {
  // The wait for a phase that is over says nothing about the next one.
  EXPECT_THAT(Said({.flips = false}, true), HasSubstr("on its way"));
  // With one turn of the ring there is no second phase.
  EXPECT_EQ(Said({.steps = 2, .flips = false}, true), StatusText(absl::OkStatus()));
}

TEST(BulkCopyTest, AWaitThatNeverEndsIsReported) {
  EXPECT_THAT(Said({.more_bytes = 16}, true),
              HasSubstr("waits forever: the phase expects 1040 bytes, and copies bring 1024"));
  EXPECT_THAT(Said({.more_bytes = -16}, true), HasSubstr("waits forever"));
  EXPECT_THAT(Said({.expect = false}, true), HasSubstr("has no BULK_EXPECT"));
}

TEST(BulkCopyTest, APartIsFilledAgainBehindABarrierOnly) {
  EXPECT_THAT(Said({.barrier = false}, true), HasSubstr("a race"));
}

TEST(BulkCopyTest, TheKernelWaitsForAllCopies) {
  EXPECT_THAT(Said({.missing_waits = 1}, true), HasSubstr("ends before its BULK_COPYs do"));
}

TEST(BulkCopyTest, BarriersAreMadeBefore) {
  EXPECT_THAT(Said({.init = false}, true), HasSubstr("without a BULK_INIT"));
  EXPECT_THAT(Said({.init = false}, false), HasSubstr("not made"));
  EXPECT_THAT(Said({.first_barrier = false}, true), HasSubstr("without a BARRIER after"));
  EXPECT_THAT(Said({.first_barrier = false}, false), HasSubstr("not made"));
}

TEST(BulkCopyTest, OnlyCopiesFillTheirArrays) {
  EXPECT_THAT(Said({.extra_store = true}, true), HasSubstr("STORE to an array"));
}

TEST(BulkCopyTest, NoLoopEndsTheKernelWhileCopiesRun) {
  EXPECT_THAT(Said({.polls = 1}, true), HasSubstr("polls"));
}

TEST(BulkCopyTest, BoxesBeginAtWholeAtoms) {
  EXPECT_THAT(Said({.shift = 32}, true), HasSubstr("no multiple of 8 spans"));
}

TEST(TensorMapTest, LimitsAreThoseOfTheHardware) {
  const TensorMap good = BulkRing().Map();
  EXPECT_EQ(good.MaybeWrong(), "");
  const auto wrong = [&](const auto& change) {
    TensorMap map = good;
    change(map);
    return map.MaybeWrong();
  };
  EXPECT_NE(wrong([](auto& m) { m.strides[0] = 24; }), "");
  EXPECT_NE(wrong([](auto& m) { m.strides[0] = int64_t{1} << 40; }), "");
  EXPECT_NE(wrong([](auto& m) { m.box[1] = 257; }), "");
  EXPECT_NE(wrong([](auto& m) { m.box[0] = 16; }), "");
  EXPECT_NE(wrong([](auto& m) { m.dims[1] = 0; }), "");
  EXPECT_NE(wrong([](auto& m) { m.element_bytes = 8; }), "");
  EXPECT_NE(wrong([](auto& m) { m.span = 256; }), "");
  EXPECT_NE(wrong([](auto& m) { m.strides.clear(); }), "");
}

}  // namespace
}  // namespace uopd::interp
