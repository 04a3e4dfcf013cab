// SPDX-License-Identifier: MIT
#include "tests/cluster/faults.h"

#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "cache/redis/redis_connection.h"
#include "core/base/text.h"
#include "tests/cluster/series.h"

namespace uopd::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

absl::Status Nothing(Fleet&) { return absl::OkStatus(); }

// Commands for the server, past the proxies.
absl::Status Tell(Fleet& fleet, const std::vector<cache::RedisConnection::Command>& commands) {
  const auto soon = std::chrono::steady_clock::now() + seconds(10);
  UOPD_ASSIGN(auto transport, cache::Transport::ConnectUnix(fleet.redis().socket(), soon));
  UOPD_ASSIGN(auto connection, cache::RedisConnection::Login(std::move(transport), {}, soon));
  for (const auto& command : commands) UOPD_TRY(connection->Run(command, soon).status());
  return absl::OkStatus();
}

absl::Status Restart(Fleet& fleet) { return fleet.redis().Restart(); }
absl::Status Empty(Fleet& fleet) { return Tell(fleet, {{"FLUSHALL"}}); }
absl::Status Pause(Fleet& fleet) { return fleet.redis().Pause(), absl::OkStatus(); }
absl::Status Continue(Fleet& fleet) { return fleet.redis().Continue(), absl::OkStatus(); }

// Another server at the same place, with other people's data: keys that look like the cluster's
// with bytes that are none of its records, keys of other types, and announcements of things that
// are not there.
absl::Status Replace(Fleet& fleet) {
  UOPD_TRY(fleet.redis().Restart());
  std::mt19937_64 random(1);
  std::deque<std::string> texts;  // what the commands refer to
  const auto text = [&](std::string value) -> std::string_view {
    return texts.emplace_back(std::move(value));
  };
  const auto bytes = [&](size_t n) {
    std::string out(n, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
  };
  std::vector<cache::RedisConnection::Command> commands;
  for (int i = 0; i < 500; ++i) {
    std::string hex;
    for (int digit = 0; digit < 64; ++digit) hex += "0123456789abcdef"[random() % 16];
    const std::string_view row = text(Cat("uopd:1:{", hex, "}:row"));
    if (i % 3 == 0)
      commands.push_back({"SET", row, text(bytes(100))});
    else
      commands.push_back({"HSET", row, "fence", text(bytes(8)), "record", text(bytes(300))});
    commands.push_back({"XADD", "uopd:1:puts", "*", "address", text(bytes(32)), "store", "kernel",
                        "environment", text(bytes(i % 40))});
  }
  commands.push_back({"SET", "uopd:1:born", "the day before"});
  return Tell(fleet, commands);
}

// The daemon that tunes now ends at once; later it comes back with the disk that it left.
class OwnerDies {
 public:
  absl::Status Kill(Fleet& fleet) {
    std::vector<double> before;
    for (int i = 0; i < fleet.size(); ++i) before.push_back(fleet.Metric(i, kMeasured));
    const auto limit = std::chrono::steady_clock::now() + seconds(30);
    while (std::chrono::steady_clock::now() < limit) {
      for (int i = 0; i < fleet.size(); ++i) {
        if (fleet.Metric(i, kMeasured) <= before[static_cast<size_t>(i)]) continue;
        killed_ = i;
        fleet.Kill(i);
        return absl::OkStatus();
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    return absl::DeadlineExceededError("No daemon began to tune");
  }
  absl::Status Restart(Fleet& fleet) const { return fleet.Restart(killed_); }

 private:
  int killed_ = 0;
};

NamedFault OfProxies(const char* name, const char* doc, milliseconds lasts, Fault fault, bool all,
                     milliseconds delay = {}) {
  const auto set = [all](Fleet& fleet, Fault to, milliseconds late) {
    for (int i = 0; i < (all ? fleet.size() : 1); ++i) fleet.proxy(i).Set(to, late);
    return absl::OkStatus();
  };
  return {name, doc, lasts, [=](Fleet& fleet) { return set(fleet, fault, delay); },
          [=](Fleet& fleet) { return set(fleet, Fault::kPass, {}); }};
}

}  // namespace

const std::vector<NamedFault>& Faults() {
  static const auto owner = std::make_shared<OwnerDies>();
  static const std::vector<NamedFault> faults = {
      {"control", "nothing happens", seconds(1), Nothing, Nothing, true},
      {"kill", "the daemon that tunes is killed, and comes back later", seconds(5),
       [](Fleet& fleet) { return owner->Kill(fleet); },
       [](Fleet& fleet) { return owner->Restart(fleet); }},
      {"restart", "the server is killed and started without its data", seconds(1), Restart,
       Nothing},
      {"empty", "all keys of the server are deleted", seconds(1), Empty, Nothing},
      {"pause", "the server stands still", seconds(30), Pause, Continue},
      {"foreign", "the server is replaced by one with foreign data", seconds(1), Replace, Nothing},
      OfProxies("partition", "one daemon is cut off", seconds(8), Fault::kPartition, false),
      OfProxies("reset", "all connections are reset", seconds(3), Fault::kReset, true),
      OfProxies("half-open", "all connections hang for ever", seconds(1), Fault::kHalfOpen, true),
      OfProxies("delay", "each byte is late by 50 ms", seconds(8), Fault::kDelay, true,
                milliseconds(50)),
  };
  return faults;
}

}  // namespace uopd::cluster
