// SPDX-License-Identifier: MIT
#include "tests/chaos/world.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/text.h"

namespace uopd::chaos {
namespace {

// Text that no other file has, not even one that gets the inode of this file later. Empty: there is
// no such file.
std::string IdentityOf(const std::string& path) {
  struct statx found = {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &found) != 0) return "";
  return Cat(found.stx_ino, " of ", found.stx_dev_major, ":", found.stx_dev_minor, " born ",
             found.stx_btime.tv_sec, ".", found.stx_btime.tv_nsec);
}

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

World::World(WorldOptions options, Report& report) : options_(std::move(options)), report_(report) {
  std::string name = (std::filesystem::temp_directory_path() / "uopd-chaos-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  folder_ = name;
}

World::~World() {
  daemon_.reset();
  std::error_code ignored;
  if (options_.keep) {
    std::fprintf(stderr, "kept: %s\n", folder_.c_str());
  } else {
    std::filesystem::remove_all(folder_, ignored);
  }
}

absl::Status World::Start() { return StartDaemon(); }

absl::Status World::StartDaemon() {
  UOPD_ASSIGN(daemon_, test::Daemon::Start({options_.program, folder_, options_.flags,
                                            options_.groups, options_.group_namespace}));
  MutexLock lock(mu_);
  killed_at_.push_back(0);
  place_ = {generation_.load() + 1, daemon_->address(), daemon_->http_address(), daemon_->pid()};
  ++generation_;
  return absl::OkStatus();
}

absl::Status World::Restart(const std::function<void(const std::string&)>& meanwhile) {
  {
    MutexLock lock(mu_);
    killed_at_.back() = Now();
    ++generation_;
  }
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
  report_.Count("daemon_kills");
  if (meanwhile) meanwhile(data_folder());
  const double start = Now();
  UOPD_TRY(StartDaemon());
  report_.Sample("restart_s", Now() - start);
  return absl::OkStatus();
}

double World::Stop(double limit_s) {
  const double start = Now();
  daemon_->Signal(SIGTERM);
  while (daemon_->Running() && Now() - start < limit_s) Sleep(0.005);
  const double took = Now() - start;
  if (daemon_->Running()) {
    report_.Violation("stop", Cat("the daemon runs ", took, " s after SIGTERM"));
    daemon_->Signal(SIGABRT);  // leaves a core file where the system keeps them
    daemon_->Wait();
  } else if (const int status = daemon_->Wait();
             status != 0 && status != 4) {  // 4: it cut calls off
    report_.Violation("stop", Cat("the daemon ends with status ", status));
  }
  return took;
}

std::optional<World::Place> World::Where() const {
  while (!Over()) {
    {
      MutexLock lock(mu_);
      if (generation_ % 2 == 0) return place_;
    }
    Sleep(0.005);
  }
  return std::nullopt;
}

World::Place World::LastPlace() const {
  MutexLock lock(mu_);
  return place_;
}

double World::KilledAt(int64_t generation) const {
  MutexLock lock(mu_);
  return killed_at_[static_cast<size_t>(generation / 2)];
}

bool World::Pause(double seconds) const {
  const double end = Now() + seconds;
  for (double left; !Over() && (left = end - Now()) > 0;) Sleep(std::min(left, 0.05));
  return !Over();
}

void World::WishRestart(std::function<void(const std::string&)> meanwhile) {
  MutexLock lock(mu_);
  wish_ = std::move(meanwhile);
}

absl::Status World::GrantWishes() {
  std::optional<std::function<void(const std::string&)>> wish;
  {
    MutexLock lock(mu_);
    wish.swap(wish_);
  }
  if (wish) return Restart(*wish);
  // Nobody has asked the daemon to end.
  if (!daemon_->Running()) {
    report_.Violation("death",
                      "the daemon has ended by itself; its log ends: " +
                          daemon_->Log().substr(daemon_->Log().size() -
                                                std::min<size_t>(2000, daemon_->Log().size())));
    return Restart();
  }
  return absl::OkStatus();
}

void World::SetDamaged(const std::filesystem::path& file) {
  constexpr std::string_view kJournal = "-journal";
  std::string database = file.string();
  if (database.ends_with(kJournal)) database.resize(database.size() - kJournal.size());
  const std::string identity = IdentityOf(database);
  damaged_ = true;
  MutexLock lock(mu_);
  damaged_files_.insert(identity);
}

bool World::IsDamaged(const std::string& database) const {
  const std::string identity = IdentityOf(database);
  MutexLock lock(mu_);
  return damaged_files_.contains(identity);
}

std::mt19937_64 World::Random(const std::string& actor, int copy) const {
  std::seed_seq seeds{options_.seed, std::hash<std::string>()(actor), static_cast<uint64_t>(copy)};
  return std::mt19937_64(seeds);
}

}  // namespace uopd::chaos
