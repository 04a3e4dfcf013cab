// SPDX-License-Identifier: MIT
// Three daemons behind a load balancer are restarted one after the other, under load: no call fails
// that a repetition could save.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "client/cpp/net/session.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/services/child_program.h"
#include "tests/support/services/free_port.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using test::Eventually;

constexpr char kProgram[] = "/usr/sbin/haproxy";
constexpr int kDaemons = 3, kClients = 6;
constexpr int64_t kElements = 32;

class RollingRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(kProgram, X_OK) != 0) {
      // tests/run installs it (deploy/install-deps --tests).
      if (std::getenv("UOPD_REQUIRE_HAPROXY") != nullptr) FAIL() << kProgram << " is not there";
      GTEST_SKIP() << kProgram << " is not there";
    }
    for (int i = 0; i < kDaemons; ++i) {
      ports_[i] = {test::FreePort(), test::FreePort()};
      Start(i);
    }
    StartBalancer();
  }

  void Start(int i) {
    daemons_[i] = std::make_unique<DaemonProcess>(
        folders_[i].path(),
        std::vector<std::string>{Cat("--listen=127.0.0.1:", ports_[i].first),
                                 Cat("--http-listen=127.0.0.1:", ports_[i].second),
                                 "--server-drain-delay-ms=1s", "--device-cpu-threads=1"});
  }

  // It shares connections among the daemons, since a session belongs to one of them.
  void StartBalancer() {
    port_ = test::FreePort();
    const std::string config = folder_.path() / "haproxy.cfg";
    std::ofstream out(config);
    out << "defaults\n mode tcp\n timeout connect 1s\n timeout client 1m\n timeout server 1m\n"
        << "frontend uopd\n bind 127.0.0.1:" << port_ << "\n default_backend uopd\n"
        << "backend uopd\n balance roundrobin\n option httpchk GET /readyz\n"
        << " default-server check inter 100ms fall 2 rise 1\n";
    for (int i = 0; i < kDaemons; ++i) {
      out << " server uopd" << i << " 127.0.0.1:" << ports_[i].first << " port " << ports_[i].second
          << "\n";
    }
    out.close();
    balancer_.Start({kProgram, "-db", "-f", config}, folder_.path() / "haproxy.log");
    ASSERT_TRUE(Eventually([&] {
      return client::Connection::Connect({.address = address()}).ok() || balancer_.Ended();
    })) << balancer_.Said();
  }
  std::string address() const { return Cat("127.0.0.1:", port_); }

  TemporaryFolder folder_;
  std::array<TemporaryFolder, kDaemons> folders_;
  std::array<std::pair<uint16_t, uint16_t>, kDaemons> ports_;
  std::array<std::unique_ptr<DaemonProcess>, kDaemons> daemons_;
  uint16_t port_ = 0;
  test::ChildProgram balancer_;
};

// Calls whose data travel with them, until `stop`, by a connection that stays or by one for each
// call.
class Load {
 public:
  Load(std::string address, bool stays, const std::atomic<bool>& stop)
      : address_(std::move(address)), stays_(stays), stop_(stop), thread_([this] { Run(); }) {}
  ~Load() { thread_.join(); }
  uint64_t done() const { return done_; }
  std::string failures() const {
    const std::scoped_lock lock(mutex_);
    return failures_;
  }

 private:
  void Run() {
    std::shared_ptr<client::Connection> connection;
    const auto graph = std::make_shared<const std::string>(ScaleGraph(kElements, 3));
    const std::string digest(HashBytes(*graph).view());
    const auto data = std::make_shared<const std::string>(
        Bytes(std::vector<float>(static_cast<size_t>(kElements), 2)));
    while (!stop_) {
      if (connection == nullptr || !stays_) {
        auto made = client::Connection::Connect({.address = address_});
        if (!made.ok()) {
          Note(made.status());
          continue;
        }
        connection = *std::move(made);
      }
      client::Call call;
      call.digest = digest;
      call.graph = graph;
      call.arguments = {{.handle = 0, .return_data = true}, {.data = data}};
      client::Answer answer = connection->Submit(std::move(call));
      const absl::Status status = answer.future.Wait();
      if (!status.ok()) {
        Note(status);
      } else if (Floats(answer.result->data.at(0)) !=
                 std::vector<float>(static_cast<size_t>(kElements), 6)) {
        Note(absl::InternalError("a wrong result"));
      }
      ++done_;
    }
  }
  void Note(const absl::Status& status) {
    const std::scoped_lock lock(mutex_);
    Append(failures_, status.ToString(), "\n");
  }

  const std::string address_;
  const bool stays_;
  const std::atomic<bool>& stop_;
  std::atomic<uint64_t> done_{0};
  mutable std::mutex mutex_;
  std::string failures_;
  std::thread thread_;
};

TEST_F(RollingRestartTest, NoCallFailsThatARepetitionCouldSave) {
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Load>> load;
  for (int i = 0; i < kClients; ++i)
    load.push_back(std::make_unique<Load>(address(), i % 2 == 0, stop));
  const auto all_go_on = [&] {
    std::vector<uint64_t> before;
    for (const auto& one : load) before.push_back(one->done());
    return Eventually([&] {
      for (size_t i = 0; i < load.size(); ++i) {
        if (load[i]->done() < before[i] + 3) return false;
      }
      return true;
    });
  };
  EXPECT_TRUE(all_go_on());
  for (int i = 0; i < kDaemons; ++i) {
    daemons_[i]->Signal(SIGTERM);
    EXPECT_EQ(daemons_[i]->Wait(), 0) << daemons_[i]->Log();
    Start(i);
    EXPECT_TRUE(all_go_on());
    // The balancer has seen that this one is back before the next one goes.
    constexpr char kOpened[] =
        "uopd_rpc_duration_seconds_count{method=\"OpenSession\",code=\"OK\"}";
    EXPECT_TRUE(Eventually([&] { return daemons_[i]->Metric(kOpened) > 0; }));
  }
  EXPECT_TRUE(all_go_on());
  stop = true;
  for (const auto& one : load) EXPECT_EQ(one->failures(), "");
}

}  // namespace
}  // namespace uopd::e2e
