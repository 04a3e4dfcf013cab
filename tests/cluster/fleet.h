// SPDX-License-Identifier: MIT
// Fleet: daemons with data folders of their own that share a server of Redis. Each reaches the
// server by a proxy of its own, so that one of them can be cut off.
//
// Not thread-safe, except for const members.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tests/cluster/fault_proxy.h"
#include "tests/support/daemon.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::cluster {

class Fleet {
 public:
  struct Options {
    std::string uopd;                    // path of the daemon
    std::string redis = "redis-server";  // or a server of Valkey
    std::vector<std::string> flags;      // of each daemon
  };
  static absl::StatusOr<std::unique_ptr<Fleet>> Start(const Options& options, int daemons);
  ~Fleet();

  // Starts one more, with an empty disk.
  absl::Status Join();
  // Ends the last one in order, and forgets it.
  void Leave();
  // As `kill -9`. What it had counted is kept in the sums.
  void Kill(int daemon);
  // With the disk that it left.
  absl::Status Restart(int daemon);

  int size() const { return static_cast<int>(members_.size()); }
  bool running(int daemon) const { return member(daemon).daemon != nullptr; }
  const test::Daemon& daemon(int daemon) const { return *member(daemon).daemon; }
  FaultProxy& proxy(int daemon) { return *members_[static_cast<size_t>(daemon)].proxy; }
  test::RedisProcess& redis() { return *redis_; }
  // The cluster's keys, in the server's form. For faults that write foreign data.
  const std::string& folder() const { return folder_; }

  // The value of a series of one daemon, and of all daemons together; 0 if there is none.
  double Metric(int daemon, const std::string& series) const;
  double Sum(const std::string& series) const;
  // Rows of a store on the disk of a daemon.
  absl::StatusOr<int64_t> Rows(int daemon, const std::string& store) const;

 private:
  struct Member {
    std::string folder;
    std::unique_ptr<FaultProxy> proxy;
    std::unique_ptr<test::Daemon> daemon;  // null: killed
  };
  Fleet() = default;
  const Member& member(int i) const { return members_[static_cast<size_t>(i)]; }
  absl::Status Spawn(Member& member);
  void End(int daemon, int signal);

  Options options_;
  std::string folder_;
  std::unique_ptr<test::RedisProcess> redis_;
  std::vector<Member> members_;
  std::map<std::string, double>
      lost_;  // what killed daemons had counted, of the series that are summed
};

}  // namespace uopd::cluster
