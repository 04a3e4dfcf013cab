// SPDX-License-Identifier: MIT
// Floods of HTTP/2 frames: they cost the daemon little memory, and others are served meanwhile.
#include "tests/support/http2/floods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/support/http2/frames.h"
#include "tests/support/http2/half_messages.h"

namespace uopd::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kConnections = 10;
constexpr std::chrono::milliseconds kTime{500};
constexpr std::chrono::seconds kPatience{30};
constexpr int64_t kMostKiB = 64 << 10;

// What the guard says to the floods that it ends. It leaves the others to gRPC and to the limits of
// calls.
const std::map<std::string, std::string>& Reasons() {
  static const std::map<std::string, std::string> all = {
      {"endless_headers", "header fields"},
      {"endless_field", "header block"},
      {"empty_continuations", "header block pieces"},
      {"rapid_reset", "resets"},
      {"rapid_reset_of_calls", "resets"},
      {"settings", "frames without content"},
      {"window_sizes", "frames without content"},
      {"acknowledgments", "frames without content"},
      {"pings", "pings"},
      {"pings_unread", "pings"},
      {"empty_data", "frames without content"},
      {"tiny_data", "message pieces"},
      {"window_updates", "frames without content"},
      {"priorities", "frames without content"},
      {"unknown_frames", "frames without content"},
      {"open_calls_with_fields", "header fields"},
      {"hpack_bomb", "header fields"},
  };
  return all;
}

// A line of /proc/PID/status in KiB: VmRSS, or VmHWM, its peak.
int64_t StatusKiB(pid_t pid, const std::string& name) {
  std::ifstream in(Cat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    int64_t value = 0;
    if (word == name + ":" && in >> value) return value;
  }
  return -1;
}

void ForgetPeak(pid_t pid) { std::ofstream(Cat("/proc/", pid, "/clear_refs")) << "5"; }

double Percentile99(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

// Calls Hello again and again until told to stop.
class HonestClient {
 public:
  explicit HonestClient(const DaemonProcess& daemon)
      : client_(daemon), thread_([this](const std::stop_token& stop) { Work(stop); }) {}
  // The times of its calls in milliseconds, in order.
  std::vector<double> End() {
    thread_.request_stop();
    thread_.join();
    return std::move(times_);
  }

 private:
  void Work(const std::stop_token& stop) {
    do {
      const auto begin = Clock::now();
      grpc::ClientContext context;
      v1::HelloResponse response;
      const grpc::Status status = client_.stub().Hello(&context, {}, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      times_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    } while (!stop.stop_requested());
  }

  Client client_;
  std::vector<double> times_;
  std::jthread thread_;
};

TEST(FloodsTest, CostLittleMemoryAndLeaveOthersServed) {
  // Lower rates than by default, so that a busy machine sends more too. What is slow by a sanitizer
  // need not reach them.
#if defined(UOPD_SANITIZED)
  constexpr bool kReachesRates = false;
#else
  constexpr bool kReachesRates = true;
#endif
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--limits-connection-frames-per-s=20000"});
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  int address = 1;
  for (const test::http2::Flood& flood : test::http2::Floods()) {
    SCOPED_TRACE(flood.name);
    const auto reason = Reasons().find(flood.name);
    const std::string series =
        reason == Reasons().end() || !kReachesRates
            ? ""
            : Cat("uopd_connections_ended_total{reason=\"", reason->second, "\"}");
    const double ended = series.empty() ? 0 : std::max(0.0, daemon.Metric(series));
    ForgetPeak(daemon.pid());
    const int64_t before = StatusKiB(daemon.pid(), "VmRSS");
    HonestClient honest(daemon);
    const auto begin = Clock::now();
    const auto sent =
        test::http2::Send(flood, daemon.listen(), Cat("127.0.3.", address++), kConnections, [&] {
          const auto time = Clock::now() - begin;
          return time > kPatience ||
                 (time > kTime && (series.empty() || daemon.Metric(series) > ended));
        });
    std::vector<double> times = honest.End();
    const int64_t cost = StatusKiB(daemon.pid(), "VmHWM") - before;
    std::printf("%-24s %6ld KiB, %5lu connections, p99 of others %.1f ms of %zu calls\n",
                flood.name, static_cast<long>(cost), static_cast<unsigned long>(sent.connections),
                Percentile99(times), times.size());
    EXPECT_GT(sent.bytes, 0U);
    if (kReachesRates) {
      EXPECT_LT(cost, kMostKiB);
    }
    if (!series.empty()) {
      EXPECT_GT(daemon.Metric(series), ended) << series;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectServes(daemon));
  }
  EXPECT_NE(daemon.Log().find("connection ended because of its HTTP/2 frames"), std::string::npos);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// Two clients with 200 messages each that never end, without a token.
TEST(FloodsTest, MessagesThatNeverEndCostLittleMemory) {
  constexpr int64_t kMiB = 1 << 20;
  TemporaryFolder folder;
  // All connections together may hold 8 MiB of unfinished messages.
  DaemonProcess daemon(folder.path(),
                       {"--limits-max-message-bytes=1MiB", "--limits-total-bytes=256MiB"});
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  const char kEnded[] = "uopd_connections_ended_total{reason=\"unfinished messages\"}";
  const double ended = std::max(0.0, daemon.Metric(kEnded));
  ForgetPeak(daemon.pid());
  const int64_t before = StatusKiB(daemon.pid(), "VmRSS");
  HonestClient honest(daemon);
  const auto deadline = Clock::now() + kPatience;
  std::vector<std::unique_ptr<test::http2::HalfMessages>> clients(2);
  uint64_t sent = 0;
  int connections = 0;
  while (sent < 300 * kMiB && Clock::now() < deadline) {
    for (size_t i = 0; i < clients.size(); ++i) {
      auto& client = clients[i];
      if (client == nullptr || !client->open()) {
        if (client != nullptr) sent += client->sent();
        client = std::make_unique<test::http2::HalfMessages>(
            daemon.listen(), Cat("127.0.5.", ++connections % 200 + 1), 200, kMiB);
      }
      client->Go();
    }
  }
  std::vector<double> times = honest.End();
  const int64_t cost = StatusKiB(daemon.pid(), "VmHWM") - before;
  std::printf("%ld KiB for %lu MiB of %d connections, p99 of others %.1f ms\n",
              static_cast<long>(cost), static_cast<unsigned long>(sent / kMiB), connections,
              Percentile99(times));
  EXPECT_GE(sent, 300U * kMiB) << "they could not send as much";
  EXPECT_GT(daemon.Metric(kEnded), ended);
#if !defined(UOPD_SANITIZED)
  EXPECT_LT(cost, 2 * kMostKiB);
#endif
  ASSERT_NO_FATAL_FAILURE(ExpectServes(daemon));
}

TEST(FloodsTest, WhatTheyLeaveGoesBackToTheSystem) {
#if defined(UOPD_SANITIZED)
  GTEST_SKIP() << "a sanitizer has its own malloc";
#endif
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--limits-connection-streams=2000"});
  ASSERT_TRUE(daemon.running());
  ExpectServes(daemon);
  const int64_t before = StatusKiB(daemon.pid(), "VmRSS");
  // Calls whose messages never come: as many as allowed.
  const test::http2::Flood open{
      .name = "open", .next = [](test::http2::Sender& to) -> std::string {
        if (to.stream > 2 * 1999) return "";
        std::string said = test::http2::Acknowledgment();
        for (; to.stream < 2 * 1999; to.stream += 2) {
          said +=
              test::http2::Frame(test::http2::Type::kHeaders, test::http2::kEndHeaders, to.stream,
                                 test::http2::CallFields("/uopd.v1.UopdService/Hello"));
        }
        return said;
      }};
  auto deadline = Clock::now() + kPatience;
  const auto large = [&] { return StatusKiB(daemon.pid(), "VmRSS") > before + (200 << 10); };
  test::http2::Send(open, daemon.listen(), "127.0.4.1", kConnections,
                    [&] { return large() || Clock::now() > deadline; });
  ASSERT_GT(StatusKiB(daemon.pid(), "VmHWM"), before + (200 << 10)) << "the flood is too small";
  deadline = Clock::now() + 2 * kPatience;
  while (StatusKiB(daemon.pid(), "VmRSS") > before + (64 << 10) && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LT(StatusKiB(daemon.pid(), "VmRSS"), before + (64 << 10));
}

}  // namespace
}  // namespace uopd::e2e
