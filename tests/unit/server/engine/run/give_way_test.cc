// SPDX-License-Identifier: MIT
#include "server/engine/run/give_way.h"

#include <gtest/gtest.h>

#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

class GiveWayTest : public testing::Test {
 protected:
  GiveWayTest() { program_.devices = {&device()}; }
  DeviceState& device() { return **devices_.Get(""); }
  void Pause(std::chrono::nanoseconds worked) {
    RequestContext request;
    RunControl control(watch_, request, terms_, /*long_run=*/false);
    GiveWay(device(), worked, control);
  }

  DeviceSet devices_{NullRegistry()};
  Program program_;
  RunWatch watch_;
  RunTerms terms_;
};

TEST_F(GiveWayTest, NineTimesAsLongAsTheStep) {
  const ClientRun run(program_);
  const auto start = std::chrono::steady_clock::now();
  Pause(std::chrono::milliseconds(4));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(36));
}

// These would take hours.
TEST_F(GiveWayTest, NotWithoutARunOfAClient) { Pause(std::chrono::hours(1)); }

TEST_F(GiveWayTest, UntilTheRunsOfClientsHaveEnded) {
  auto first = std::make_optional<ClientRun>(program_);
  auto second = std::make_optional<ClientRun>(program_);
  EXPECT_EQ(device().client_runs().runs(), 2);
  std::thread clients([&] {
    first.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    second.reset();
  });
  Pause(std::chrono::hours(1));
  EXPECT_EQ(device().client_runs().runs(), 0);
  clients.join();
}

TEST_F(GiveWayTest, UntilNobodyWantsTheRun) {
  const ClientRun run(program_);
  int asked = 0;
  terms_.wanted = [&](auto) {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("nobody wants it");
  };
  Pause(std::chrono::hours(1));
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace uopd::engine
