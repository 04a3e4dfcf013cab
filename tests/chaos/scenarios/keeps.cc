// SPDX-License-Identifier: MIT
// kill -9 of a daemon at 500 random moments while it compiles and tunes. Each time the next daemon
// opens the cache as it is, and has all that clients were told 200 ms before the kill or earlier:
// it compiles none of that again.
//
// A daemon lives for 20 ms to `seconds` after its clients begin. Clients ask for graphs that nobody
// has asked for, some of them with tuning, and note when an answer came. A tuned kernel counts when
// an answer came from it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/text.h"
#include "tests/chaos/aftermath.h"
#include "tests/chaos/scenario.h"
#include "tests/cluster/caller.h"
#include "tests/cluster/series.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::keeps {
namespace {

using cluster::Work;

constexpr double kPromise = 0.2;  // seconds: what is older is kept
constexpr int kClients = 2;
constexpr uint32_t kKeepsBeam = 2;
constexpr int kTunedOf = 4;      // each fourth graph is tuned
constexpr size_t kOldOnes = 10;  // graphs of earlier rounds that are asked for again
constexpr double kTuningTime = 60;
constexpr char kCacheOk[] = "uopd_cache_state{store=\"kernel\",state=\"ok\"}";

// Graph number `i`, as no other: a product with a factor of its own.
Work KeptWork(int i) {
  constexpr int64_t kElements = 512;
  const float factor = 1 + static_cast<float>(i) / 4096;
  std::vector<float> x = e2e::Scattered(kElements, static_cast<uint64_t>(i)), y;
  for (const float v : x) y.push_back(v * factor);
  return {e2e::ScaleGraph(kElements, factor), {e2e::Bytes(x)}, e2e::Bytes(y)};
}

struct Kept {
  int work = 0;
  bool tuned = false;  // the answer came from a tuned kernel
  double at = 0;       // when it came
  double before = 0;   // seconds from then to the kill
  // For people.
  std::string Text() const {
    return Cat("graph ", work, tuned ? ", tuned" : "", ", answered ",
               static_cast<int>(1e3 * before), " ms before the kill");
  }
};

// The clients of one daemon.
class KeepsLoad {
 public:
  KeepsLoad(const std::string& address, std::atomic<int>& next, Report& report)
      : address_(address), next_(next), report_(report) {
    for (int c = 0; c < kClients; ++c) threads_.emplace_back([this] { Work(); });
  }
  // REQUIRES: called before the daemon is killed. Errors that come later are no fault of it.
  void ExpectKill() { killed_ = true; }
  std::vector<Kept> Join() {
    threads_.clear();
    const MutexLock lock(mu_);
    return kept_;
  }

 private:
  void Work() {
    cluster::Caller caller(address_);
    while (!killed_) {
      const int i = next_++;
      const bool tune = i % kTunedOf == 0;
      if (!Ask(caller, i, false)) return;
      for (const double begin = Now(); tune && Now() - begin < kTuningTime;) {
        const auto tuned = Ask(caller, i, true);
        if (!tuned) return;
        if (*tuned) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  // Whether the kernel is tuned. nullopt: the daemon is gone.
  std::optional<bool> Ask(cluster::Caller& caller, int i, bool tune) {
    const auto answer = caller.Run(KeptWork(i), tune ? kKeepsBeam : 0);
    if (!answer.ok()) {
      if (!killed_) report_.Violation("error", StatusText(answer.status()));
      return std::nullopt;
    }
    const double now = Now();
    if (tune && !answer->tuned) return false;
    const MutexLock lock(mu_);
    kept_.push_back({i, tune, now});
    return answer->tuned;
  }

  const std::string address_;
  std::atomic<int>& next_;
  Report& report_;
  std::atomic<bool> killed_{false};
  Mutex mu_;
  std::vector<Kept> kept_ UOPD_GUARDED_BY(mu_);
  std::vector<std::jthread> threads_;
};

class Keeps {
 public:
  Keeps(const Settings& settings, Report& report)
      : settings_(settings), report_(report), random_(settings.seed) {}

  absl::Status Run() {
    const int64_t rounds = settings_.times > 0 ? settings_.times : 500;
    std::string folder = (std::filesystem::temp_directory_path() / "uopd-keeps-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("no temporary folder");
    folder_ = folder;
    absl::Status status;
    for (int64_t round = 0; round < rounds && status.ok(); ++round) status = Round();
    if (status.ok()) status = Check();  // after the last kill
    report_.Figure("rounds", static_cast<double>(rounds));
    report_.Figure("graphs", next_);
    daemon_.reset();
    if (!settings_.keep) std::filesystem::remove_all(folder_);
    return status;
  }

 private:
  absl::Status Round() {
    UOPD_TRY(Check());
    const double longest = settings_.seconds > 0 ? settings_.seconds : 3;
    const double life = std::uniform_real_distribution<double>(0.02, longest)(random_);
    KeepsLoad load(daemon_->address(), next_, report_);
    std::this_thread::sleep_for(std::chrono::duration<double>(life));
    load.ExpectKill();
    const double killed = Now();
    daemon_->Signal(SIGKILL);
    daemon_->Wait();
    daemon_.reset();
    report_.Count("daemon_kills");
    for (Kept kept : load.Join()) {
      report_.Count("answers");
      kept.before = killed - kept.at;
      if (kept.before < kPromise) continue;
      report_.Count(kept.tuned ? "promised_tuned" : "promised_compiled");
      fresh_.push_back(kept);
    }
    return absl::OkStatus();
  }

  // Starts a daemon and asks for what it must have.
  absl::Status Check() {
    const double begin = Now();
    UOPD_ASSIGN(daemon_,
                test::Daemon::Start(
                    {settings_.program, folder_, {"--tune-candidates=6", "--tune-workers=1"}}));
    report_.Sample("start_s", Now() - begin);
    if (daemon_->Metric(kCacheOk) != 1)
      report_.Violation("cache_not_opened", daemon_->Log().substr(0, 2000));
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/data")) {
      if (entry.path().extension() == ".sqlite") CheckDatabase(report_, entry.path());
    }
    std::vector<Kept> asked = std::exchange(fresh_, {});
    const size_t fresh = asked.size();
    for (size_t n = 0; n < kOldOnes && !old_.empty(); ++n)
      asked.push_back(old_[random_() % old_.size()]);
    cluster::Caller caller(daemon_->address());
    double compiled = 0;
    for (const Kept& kept : asked) {
      const auto answer = caller.Run(KeptWork(kept.work), kept.tuned ? kKeepsBeam : 0);
      if (!answer.ok()) {
        report_.Violation("error", StatusText(answer.status()));
        continue;
      }
      report_.Count("asked_again");
      if (kept.tuned && !answer->tuned) report_.Violation("tuning_lost", kept.Text());
      const double now = daemon_->Metric(cluster::kCompiled);
      if (now > std::exchange(compiled, now)) report_.Violation("compile_lost", kept.Text());
    }
    old_.insert(old_.end(), asked.begin(), asked.begin() + static_cast<ptrdiff_t>(fresh));
    return absl::OkStatus();
  }

  const Settings& settings_;
  Report& report_;
  std::mt19937_64 random_;
  std::string folder_;
  std::unique_ptr<test::Daemon> daemon_;
  std::atomic<int> next_{1};
  std::vector<Kept> fresh_, old_;  // promised: of the last daemon, of earlier ones
};

absl::Status RunKeeps(const Settings& settings, Report& report) {
  return Keeps(settings, report).Run();
}

const Add kKeeps({"keeps", "500 kill -9 while it compiles and tunes: what was answered is kept",
                  RunKeeps});

}  // namespace
}  // namespace uopd::chaos::keeps
