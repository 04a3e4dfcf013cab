// SPDX-License-Identifier: MIT
// Large transfers of the client library to a daemon on the same machine.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/e2e/graphs.h"
#include "tests/e2e/side_socket.h"
#include "tests/support/eventually.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

std::string Pattern(size_t bytes, unsigned seed) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<char>((i * 2654435761U >> 13) + seed + i / kMiB);
  return out;
}

class SideTest : public ::testing::Test {
 protected:
  std::string Listen() const { return "--listen=unix:" + (folder_.path() / "socket").string(); }
  std::string SidePath() const { return (folder_.path() / "socket.side").string(); }
  static double Transfers(const DaemonProcess& daemon, const std::string& direction) {
    return std::max(0.0,
                    daemon.Metric("uopd_side_transfers_total{direction=\"" + direction + "\"}"));
  }
  static std::shared_ptr<client::Connection> Connect(const DaemonProcess& daemon) {
    client::ConnectOptions options;
    options.address = daemon.listen();
    auto out = client::Connection::Connect(std::move(options));
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *std::move(out) : nullptr;
  }
  // Uploads and downloads several buffers of many sizes, all on the way at the same time.
  static void ExpectTransfers(client::Connection& connection) {
    std::vector<std::string> sent, got;
    std::vector<client::Future> futures;
    for (const size_t bytes :
         {size_t{1}, kMiB / 4, kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 77, 40 * kMiB}) {
      sent.push_back(Pattern(bytes, static_cast<unsigned>(sent.size())));
      got.emplace_back(bytes, '\0');
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      const uint64_t handle = connection.NewHandle();
      futures.push_back(
          i % 2 == 0 ? connection.UploadCopy(handle, "", sent[i])
                     : connection.Upload(handle, "", std::make_shared<const std::string>(sent[i])));
      futures.push_back(connection.Download(handle, got[i]));
      connection.Free({handle});
    }
    for (const client::Future& future : futures) {
      const absl::Status status = future.Wait();
      EXPECT_TRUE(status.ok()) << status;
    }
    for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(sent[i] == got[i]) << sent[i].size();
  }

  TemporaryFolder folder_;
};

TEST_F(SideTest, LargeTransfersGoThroughSharedMemory) {
  DaemonProcess daemon(folder_.path(), {Listen()});
  const auto connection = Connect(daemon);
  ExpectTransfers(*connection);
  // A chunk that finds no room goes in its message.
  EXPECT_GE(Transfers(daemon, "upload"), 40);
  EXPECT_GE(Transfers(daemon, "download"), 30);
  EXPECT_EQ(daemon.Metric("uopd_side_areas"), 1);
}

TEST_F(SideTest, TransfersKeepTheOrderOfTheCalls) {
  DaemonProcess daemon(folder_.path(), {Listen()});
  const auto connection = Connect(daemon);
  client::Client c(connection);
  const auto n = static_cast<int64_t>(2 * kMiB);
  std::vector<float> host(static_cast<size_t>(n)), got(host.size());
  std::vector<std::vector<float>> results(6, got);
  std::vector<client::Future> futures;
  for (size_t step = 0; step < results.size(); ++step) {
    std::fill(host.begin(), host.end(), static_cast<float>(step));
    client::Tensor x = c.FromHost(host, {n});
    std::fill(host.begin(), host.end(), -1.0F);  // the tensor has a copy
    futures.push_back((x * x + 1.0)
                          .ReadInto(std::span(reinterpret_cast<char*>(results[step].data()),
                                              results[step].size() * sizeof(float))));
  }
  for (size_t step = 0; step < results.size(); ++step) {
    ASSERT_TRUE(futures[step].Wait().ok());
    const auto value = static_cast<float>(step * step + 1);
    EXPECT_EQ(std::count(results[step].begin(), results[step].end(), value), n) << step;
  }
  EXPECT_GE(Transfers(daemon, "upload"), 8);
  EXPECT_GE(Transfers(daemon, "download"), 8);
}

TEST_F(SideTest, TensorsThatAreNeverUsedDoNotPileUp) {
  DaemonProcess daemon(folder_.path(), {Listen(), "--limits-session-bytes=64MiB"});
  client::Client c(Connect(daemon));
  const std::string data(16 * kMiB, 'x');
  for (int i = 0; i < 20; ++i) {
    client::Tensor x = c.FromBytes(ir::Dtype::U8, {static_cast<int64_t>(data.size())}, data);
    ASSERT_TRUE(x.status().ok()) << x.status();
  }
  EXPECT_TRUE(c.Sync().ok());
}

TEST_F(SideTest, WithoutTheSideSocketTheyGoInMessages) {
  {
    DaemonProcess daemon(folder_.path(), {Listen(), "--server-side-socket=false"});
    EXPECT_FALSE(std::filesystem::exists(SidePath()));
    ExpectTransfers(*Connect(daemon));
    EXPECT_EQ(Transfers(daemon, "upload"), 0);
  }
  TemporaryFolder other;
  DaemonProcess daemon(other.path());  // over TCP
  Client client(daemon);
  EXPECT_FALSE(OpenSession(client).has_side());
  ExpectTransfers(*Connect(daemon));
}

TEST_F(SideTest, ABrokenSideSocketIsNoError) {
  DaemonProcess daemon(folder_.path(), {Listen()});
  ASSERT_TRUE(std::filesystem::remove(SidePath()));
  ExpectTransfers(*Connect(daemon));
  // One that never answers.
  const UniqueFd silent(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, SidePath().data(), SidePath().size());
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(listen(silent.get(), 8), 0);
  ExpectTransfers(*Connect(daemon));
  EXPECT_EQ(Transfers(daemon, "upload"), 0);
}

TEST_F(SideTest, ASessionWithoutMemoryForAnAreaHasNone) {
  DaemonProcess daemon(folder_.path(), {Listen(), "--limits-session-bytes=4MiB"});
  const auto connection = Connect(daemon);
  const std::string data = Pattern(2 * kMiB, 3);
  std::string got(data.size(), '\0');
  ASSERT_TRUE(connection->UploadCopy(7, "", data).Wait().ok());
  ASSERT_TRUE(connection->Download(7, got).Wait().ok());
  EXPECT_TRUE(got == data);
  EXPECT_EQ(daemon.Metric("uopd_side_refused_total{reason=\"quota\"}"), 1);
}

TEST_F(SideTest, AForkedProcessGoesOn) {
  DaemonProcess daemon(folder_.path(), {Listen()});
  const auto connection = Connect(daemon);
  ExpectTransfers(*connection);
  const std::string data = Pattern(32 * kMiB, 9);
  std::string got(data.size(), '\0');
  const client::Future uploaded = connection->UploadCopy(77, "", data);
  const client::Future downloaded = connection->Download(77, got);
  client::Connection::BeforeFork();
  client::Connection::AfterForkInParent();
  ASSERT_TRUE(uploaded.Wait().ok()) << uploaded.Wait();
  ASSERT_TRUE(downloaded.Wait().ok()) << downloaded.Wait();
  EXPECT_TRUE(got == data);
  const double before = Transfers(daemon, "upload");
  ExpectTransfers(*connection);
  EXPECT_GE(Transfers(daemon, "upload"), before + 40);
}

TEST_F(SideTest, TheSideSocketIsForWhomTheSocketIs) {
  DaemonProcess daemon(folder_.path(), {Listen(), "--server-socket-mode=0640"});
  struct stat status{};
  ASSERT_EQ(stat(SidePath().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(SidePath()));
  EXPECT_FALSE(std::filesystem::exists(SidePath() + ".lock"));
}

}  // namespace
}  // namespace uopd::e2e
