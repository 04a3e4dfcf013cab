// SPDX-License-Identifier: MIT
// World: the daemon under test. All actors of a run share it.
//
// The daemon may be killed and started again on its data folder. Its life is counted in
// generations: in an even generation it serves; an odd generation is between a kill and the next
// start. A call that begins and ends in one even generation has no excuse for an error.
//
// Thread-safe except for Start, Restart and Stop. These belong to the thread that made the World,
// because a daemon dies with the thread that started it.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "tests/chaos/report.h"
#include "tests/support/daemon.h"

namespace uopd::chaos {

struct WorldOptions {
  std::string program;  // path of uopd
  uint64_t seed = 1;
  std::vector<std::string> flags;     // flags of the daemon
  bool keep = false;                  // keep the folder with the data and the log after the end
  std::vector<std::string> groups{};  // of test::DaemonOptions
  bool group_namespace = false;
};

class World {
 public:
  World(WorldOptions options, Report& report);
  ~World();

  absl::Status Start();
  // Sends SIGKILL, calls `meanwhile` with the data folder while nobody has it open, and starts a
  // new daemon.
  absl::Status Restart(const std::function<void(const std::string& data_folder)>& meanwhile = {});
  // Sends SIGTERM and returns the seconds until the daemon's end. It is a violation unless the
  // daemon ends by itself with status 0.
  double Stop(double limit_s);

  struct Place {
    int64_t generation = 0;
    std::string grpc, http;
    pid_t pid = -1;
  };
  // The daemon's place. Waits while the daemon is down. nullopt: the run is over.
  std::optional<Place> Where() const;
  // The last known place, also when the run is over.
  Place LastPlace() const UOPD_EXCLUDES(mu_);
  int64_t generation() const { return generation_.load(); }
  // When the daemon of a generation was killed; 0 while it lives.
  double KilledAt(int64_t generation) const UOPD_EXCLUDES(mu_);

  // Ends the run: the actors return.
  void End() { over_ = true; }
  bool Over() const { return over_.load(); }
  // Sleeps, but not beyond the end of the run. False: the run is over.
  bool Pause(double seconds) const;

  // Asks for a restart. The thread that owns the World executes it.
  void WishRestart(std::function<void(const std::string&)> meanwhile) UOPD_EXCLUDES(mu_);
  absl::Status GrantWishes() UOPD_EXCLUDES(mu_);

  // A file of the data folder is about to be damaged from outside. From now on the contents of the
  // cache may be lost.
  void SetDamaged(const std::filesystem::path& file) UOPD_EXCLUDES(mu_);
  bool damaged_cache() const { return damaged_.load(); }
  // Whether the database at this path was damaged from outside, it or its journal, and not replaced
  // since. A daemon need not know of damage in pages that it did not read again.
  bool IsDamaged(const std::string& database) const UOPD_EXCLUDES(mu_);

  // Random numbers for one thread of one actor. The same seed gives the same numbers.
  std::mt19937_64 Random(const std::string& actor, int copy) const;

  Report& report() const { return report_; }
  const std::string& folder() const { return folder_; }
  std::string data_folder() const { return folder_ + "/data"; }
  uint64_t seed() const { return options_.seed; }
  // The logs of all daemons of this run. Lines below the log level are missing.
  std::string Log() const { return test::ReadFile(folder_ + "/log"); }

 private:
  absl::Status StartDaemon() UOPD_EXCLUDES(mu_);

  const WorldOptions options_;
  Report& report_;
  std::string folder_;
  std::unique_ptr<test::Daemon> daemon_;
  std::atomic<int64_t> generation_ = -1;
  std::atomic<bool> over_ = false;
  std::atomic<bool> damaged_ = false;  // some file was
  mutable Mutex mu_;
  Place place_ UOPD_GUARDED_BY(mu_);
  std::vector<double> killed_at_ UOPD_GUARDED_BY(mu_);        // by generation / 2
  std::set<std::string> damaged_files_ UOPD_GUARDED_BY(mu_);  // IdentityOf
  std::optional<std::function<void(const std::string&)>> wish_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::chaos
