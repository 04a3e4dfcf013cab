// SPDX-License-Identifier: MIT
// A daemon that compiles for a chip that it does not have (device.compile_only).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/net/session.h"
#include "tests/e2e/daemon_process.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using ::testing::HasSubstr;

TEST(CompileOnlyTest, ProgramsAreCachedAndNothingRuns) {
  const TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--device-list=CPU,AMD:0",
                                       "--device-compile-only=AMD:0=gfx942", "--tune-beam=2"});
  ASSERT_TRUE(daemon.running());
  auto connection = client::Connection::Connect({.address = daemon.listen()}).value();
  ASSERT_EQ(connection->devices().size(), 2U);
  EXPECT_EQ(connection->devices()[0].unavailable_reason, "");
  EXPECT_THAT(connection->devices()[1].unavailable_reason,
              HasSubstr("gfx942 is not in this machine"));
  EXPECT_EQ(connection->devices()[1].arch, "gfx942");

  client::Client client(connection, client::ClientOptions{.device = "AMD:0"});
  const client::Tensor x = client.Empty({64, 48}), y = client.Empty({48, 32});
  const std::vector<client::Tensor> products = {x.MatMul(y)};
  const client::Exported exported = client::Export(products).value();
  v1::PrepareRequest request;
  request.set_graph(exported.graph);
  const v1::PrepareResponse made = connection->session().Prepare(request).value();
  EXPECT_GE(made.cache().kernels_compiled(), 1U);
  const v1::PrepareResponse again = connection->session().Prepare(request).value();
  EXPECT_EQ(again.cache().kernels_compiled(), 0U);

  const absl::Status runs = x.MatMul(y).ToHost<float>().status();
  EXPECT_EQ(runs.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(runs), HasSubstr("AMD:0 is not in this machine"));
  // The other device is not affected.
  client::Client cpu(connection, {});
  EXPECT_EQ(cpu.Full({2}, 3.0).ToHost<float>().value(), std::vector<float>({3, 3}));
}

}  // namespace
}  // namespace uopd::e2e
