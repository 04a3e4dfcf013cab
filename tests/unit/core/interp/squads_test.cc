// SPDX-License-Identifier: MIT
// Roles of a block: what the interpreter computes and reports, in every order of its squads, and
// which lines the verifier refuses.
#include <random>

#include "core/base/text.h"
#include "core/interp/interpreter.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/role_ring.h"

namespace uopd::interp {
namespace {

using testing::HasSubstr;
using tests::RoleRing;

using RoleWords = std::vector<int32_t>;

absl::Status RunRoles(const RoleRing& ring, uint64_t seed, RoleWords& out, RoleWords& in,
                      bool verify) {
  tests::KernelLines k(ring.threads());
  const ir::UOp linear = ring.Lines(k);
  if (verify) UOPD_TRY(ir::Verify(k.ctx, linear, ir::Level::kLinear));
  UOPD_ASSIGN(const Program program, Program::Make(k.ctx, linear, {}));
  out.assign(static_cast<size_t>(ring.steps * ring.words()), -1);
  std::vector<std::span<std::byte>> spans = {std::as_writable_bytes(std::span(out)),
                                             std::as_writable_bytes(std::span(in))};
  LaunchArguments arguments;
  arguments.block[0] = ring.threads();
  arguments.buffers = spans;
  arguments.seed = seed;
  return interp::Run(program, arguments);
}

RoleWords RoleMatrix(const RoleRing& ring) {
  std::mt19937 random(5);
  RoleWords out(static_cast<size_t>(ring.steps * RoleRing::kRows * RoleRing::kColumns));
  for (int32_t& v : out) v = static_cast<int32_t>(random() | 1);
  return out;
}

// What the interpreter says of a ring that the verifier is not asked about: the same thing in every
// order.
void Reports(const RoleRing& ring, const std::vector<std::string>& any_of, bool verify = false) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    RoleWords out, in = RoleMatrix(ring);
    const std::string said = StatusText(RunRoles(ring, seed, out, in, verify));
    bool found = false;
    for (const std::string& wanted : any_of) found |= said.find(wanted) != std::string::npos;
    EXPECT_TRUE(found) << "seed " << seed << ": " << said;
  }
}

std::string Refuses(const RoleRing& ring) {
  tests::KernelLines k(ring.threads());
  const ir::UOp linear = ring.Lines(k);
  return StatusText(ir::Verify(k.ctx, linear, ir::Level::kLinear));
}

TEST(RoleTest, RingsOfRolesCopyEverything) {
  for (const int64_t parts : {1, 2, 3, 5}) {
    for (const int64_t steps : {1, 2, 7}) {
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const RoleRing ring{.steps = steps, .parts = parts};
        RoleWords out, in = RoleMatrix(ring);
        const absl::Status status = RunRoles(ring, seed, out, in, true);
        ASSERT_TRUE(status.ok()) << status << parts << ' ' << steps << ' ' << seed;
        for (int64_t step = 0; step < steps; ++step) {
          for (int64_t r = 0; r < RoleRing::kRows; ++r) {
            for (int64_t w = 0; w < 32; ++w) {
              const int64_t place = (w / 4 ^ r) * 4 + w % 4;
              ASSERT_EQ(out[static_cast<size_t>(step * 256 + r * 32 + place)],
                        in[static_cast<size_t>((step * 8 + r) * 32 + w)])
                  << step << ' ' << r << ' ' << w;
            }
          }
        }
      }
    }
  }
}

TEST(RoleTest, EveryMissingWaitIsFoundInEveryOrder) {
  Reports({.wait_full = false}, {"on its way", "no thread has stored", "has not waited for"});
  Reports({.wait_empty = false},
          {"a race", "nobody has waited", "on its way", "has not waited for"});
  Reports({.full_flips = false}, {"a race", "on its way", "has not waited for", "waits forever"});
  Reports({.empty_flips = false}, {"a race", "nobody has waited", "waits forever"});
}

TEST(RoleTest, AnArrivalBeforeTheLastReadIsFoundInEveryOrder) {
  Reports({.late_arrival = false}, {"a race", "on its way", "has not waited for"}, true);
}

TEST(RoleTest, DeadlocksAreReported) {
  Reports({.arrive = false}, {"waits forever: the phase has no BULK_EXPECT, and 0 of 256 arrivals "
                              "(phase 0 of barrier 0)"});
  Reports({.more_arrivals = 1}, {"and 256 of 257 arrivals (phase 0 of barrier 0)"});
  Reports({.more_bytes = 16}, {"the phase expects 1040 bytes, and copies bring 1024"});
  Reports({.parts = 2, .skipped_step = 3}, {"and 0 of 256 arrivals (phase 1 of barrier 1)"}, true);
}

TEST(RoleTest, TooFewArrivalsEndAPhaseEarly) {
  // Half of the threads' arrivals end a phase, while others still read.
  Reports({.parts = 1, .more_arrivals = -128},
          {"a race", "on its way", "has not waited for", "nobody has waited", "waits forever"});
}

TEST(RoleTest, OtherRolesAreRefused) {
  EXPECT_EQ(Refuses({}), StatusText(absl::OkStatus()));
  EXPECT_THAT(Refuses({.wait_full = false}), HasSubstr("without a BULK_WAIT"));
  EXPECT_THAT(Refuses({.wait_empty = false}), HasSubstr("does not wait for its readers"));
  EXPECT_THAT(Refuses({.parts = 3, .other_part = 1}), HasSubstr("does not wait for its readers"));
  EXPECT_THAT(Refuses({.arrive = false}), HasSubstr("no other role arrives at"));
  EXPECT_THAT(Refuses({.more_arrivals = 1}),
              HasSubstr("256 threads, and a phase has 257 arrivals"));
  EXPECT_THAT(Refuses({.more_bytes = 16}), HasSubstr("1040 bytes, and the copies have 1024"));
  EXPECT_THAT(Refuses({.barrier_in_role = true}), HasSubstr("BARRIER in a role"));
  EXPECT_THAT(Refuses({.shared_store = true}), HasSubstr("STORE"));
  EXPECT_THAT(Refuses({.line_behind = true}), HasSubstr("behind a role"));
  EXPECT_THAT(Refuses({.value_of_other = true}), HasSubstr("of a value of another role"));
  EXPECT_THAT(Refuses({.more_arrivals = -32, .first_consumer = 32}), HasSubstr("has no role"));
  EXPECT_THAT(Refuses({.polls = 4}), HasSubstr("polls"));
}

TEST(RoleTest, RegistersAreThoseOfTheBlock) {
  const auto with = [](int64_t producers, int64_t few, int64_t many) {
    return Refuses({.producers = producers, .producer_registers = few, .consumer_registers = many});
  };
  EXPECT_EQ(with(128, 24, 240), StatusText(absl::OkStatus()));
  EXPECT_EQ(with(128, 40, 232), StatusText(absl::OkStatus()));
  EXPECT_THAT(with(128, 40, 240), HasSubstr("registers of 64512"));
  EXPECT_THAT(with(128, 24, 236), HasSubstr("no multiple of 8"));
  EXPECT_THAT(with(128, 16, 232), HasSubstr("no multiple of 8"));
  EXPECT_THAT(with(128, 0, 232), HasSubstr("only some roles"));
  EXPECT_THAT(with(32, 24, 224), HasSubstr("no whole groups"));
}

TEST(RoleTest, TheRestOfThePoolIsALegalNumber) {
  EXPECT_EQ(ir::WarpRole::Rest(24, 128, 256), 240);
  EXPECT_EQ(ir::WarpRole::Rest(40, 128, 256), 232);
  EXPECT_EQ(ir::WarpRole::Rest(32, 128, 384), 160);
}

}  // namespace
}  // namespace uopd::interp
