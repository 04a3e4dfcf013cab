// SPDX-License-Identifier: MIT
// Options.reproducible: the bits of a result are those of the graph, whatever a daemon has tuned,
// kept or restarted meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

constexpr int64_t kSize = 200;

// PairsGraph(kSize), sums of 200 floats each, whose bits depend on the order of the terms.
v1::RunRequest Request(const std::string& graph, bool reproducible, uint32_t beam = 0) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(kSize), y(kSize);
  for (auto* values : {&x, &y}) {
    for (float& v : *values) v = normal(random) * std::exp2(normal(random) * 8);
  }
  v1::RunRequest request;
  request.set_graph(graph);
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(x));
  *request.add_arguments() = Data(Bytes(y));
  request.mutable_options()->set_reproducible(reproducible);
  request.mutable_options()->set_beam(beam);
  return request;
}

v1::RunResponse Ask(Client& client, const v1::RunRequest& request) {
  v1::RunResponse response;
  grpc::ClientContext context;
  const grpc::Status status = client.stub().Run(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

class ReproducibleTest : public ::testing::Test {
 protected:
  // What a reproducible request gets now. It never waits for tuning, nor uses its results.
  std::string Bits(Client& client) {
    const v1::RunResponse response = Ask(client, Request(graph_, true));
    EXPECT_EQ(response.cache().kernels_tuned(), 0u);
    return response.data_size() == 1 ? response.data(0) : "";
  }
  void TuneTo(Client& client) {
    ASSERT_TRUE(test::Eventually([&] {
      return Ask(client, Request(graph_, false)).cache().kernels_tuned() != 0 || HasFailure();
    }));
  }

  const std::string graph_ = PairsGraph(kSize);
  // Others' requests are tuned without asking for it.
  const std::vector<std::string> flags_ = {"--tune-beam=2", "--tune-candidates=12",
                                           "--limits-session-kept-bytes=1GiB"};
  TemporaryFolder folder_;
};

TEST_F(ReproducibleTest, WhatIsTunedAndRestartedChangesNoBit) {
  std::string want;
  {
    DaemonProcess daemon(folder_.path(), flags_);
    Client client(daemon);
    want = Bits(client);
    EXPECT_EQ(want.size(), kSize * sizeof(float));
    TuneTo(client);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(Bits(client), want) << "run " << i;
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  {
    DaemonProcess again(folder_.path(), flags_);  // finds what was tuned
    Client client(again);
    EXPECT_EQ(Bits(client), want);
    EXPECT_EQ(Ask(client, Request(graph_, false)).cache().kernels_tuned(), 1u);
    EXPECT_EQ(Bits(client), want);
  }
  TemporaryFolder other;
  DaemonProcess fresh(other.path(), {"--compile-fast-tier=true"});
  Client client(fresh);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Bits(client), want) << "run " << i << " with a draft";
}

TEST_F(ReproducibleTest, ABeamIsRefused) {
  DaemonProcess daemon(folder_.path(), flags_);
  Client client(daemon);
  v1::RunResponse response;
  grpc::ClientContext context;
  const grpc::Status status = client.stub().Run(&context, Request(graph_, true, 2), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("reproducible"));
}

}  // namespace
}  // namespace uopd::e2e
