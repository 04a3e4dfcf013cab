// SPDX-License-Identifier: MIT
#include "tests/cluster/show.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "tests/cluster/caller.h"
#include "tests/cluster/faults.h"
#include "tests/cluster/fleet.h"
#include "tests/cluster/resnet.h"
#include "tests/cluster/series.h"
#include "tests/cluster/warm_load.h"

namespace uopd::cluster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kBeam = 4;
constexpr std::chrono::seconds kShort{5};  // faults that last less are run twice as often
constexpr double kPatience = 300;          // seconds, for everything that takes its time

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool Until(const std::function<bool()>& holds, double seconds = kPatience) {
  const auto begin = Clock::now();
  while (!holds()) {
    if (Since(begin) > seconds) return false;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return true;
}

double P99(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  const auto at =
      seconds.begin() + static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(seconds.size() - 1));
  std::ranges::nth_element(seconds, at);
  return *at;
}

// Collects what threads find. The first few errors are enough.
class Found {
 public:
  void Error(const absl::Status& status) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    ++errors_;
    if (text_.size() < 1000) text_ += Cat(StatusText(status), "; ");
  }
  void Seconds(double seconds) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    seconds_.push_back(seconds);
  }
  int64_t errors() UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return errors_;
  }
  std::string text() UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return text_;
  }
  double Percentile(double p) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (seconds_.empty()) return 0;
    std::ranges::sort(seconds_);
    return seconds_[static_cast<size_t>(p * static_cast<double>(seconds_.size() - 1))];
  }

 private:
  Mutex mu_;
  int64_t errors_ UOPD_GUARDED_BY(mu_) = 0;
  std::string text_ UOPD_GUARDED_BY(mu_);
  std::vector<double> seconds_ UOPD_GUARDED_BY(mu_);
};

class Show {
 public:
  Show(const ShowOptions& options, Table& table) : options_(options), table_(table) {}

  absl::Status Run() {
    // Both tiers of compiles, and few candidates: the show is about who does what.
    UOPD_ASSIGN(fleet_, Fleet::Start({.uopd = options_.uopd,
                                      .redis = options_.redis,
                                      .flags = {"--compile-fast-tier=true",
                                                "--compile-warm-up=false", "--tune-candidates=60"}},
                                     options_.daemons));
    UOPD_TRY(Cold());
    UOPD_TRY(Join("join"));
    for (const NamedFault& fault : Faults()) {
      if (!options_.faults.empty() && !std::ranges::count(options_.faults, fault.name)) continue;
      UOPD_TRY(Break(fault));
    }
    return Join("join after all");
  }

 private:
  std::vector<Work> NewWorks(int count) {
    std::vector<Work> out;
    for (int i = 0; i < count; ++i) out.push_back(MakeWork(static_cast<int>(works_.size()) + i));
    works_.insert(works_.end(), out.begin(), out.end());
    return out;
  }
  std::vector<std::string> Addresses() const {
    std::vector<std::string> out;
    for (int i = 0; i < fleet_->size(); ++i) {
      if (fleet_->running(i)) out.push_back(fleet_->daemon(i).address());
    }
    return out;
  }
  void AddErrors(const std::string& what, int64_t errors, const std::string& text) {
    table_.AddEqual(Cat(what, ": errors of clients"), static_cast<double>(errors), 0);
    if (errors > 0) std::fprintf(stderr, "    %s\n", text.c_str());
  }

  void AddTime(const std::string& what, double figure, double most, const char* unit) {
    table_.AddAtMost(what, figure, options_.times ? most : INFINITY, unit);
  }

  // Runs the works on each daemon until each is tuned there. False: not in time.
  bool TuneEverywhere(const std::vector<Work>& works, Found& found) {
    std::atomic<bool> all{true};
    std::vector<std::jthread> threads;
    for (const std::string& address : Addresses()) {
      threads.emplace_back([&, address] {
        Caller caller(address);
        std::vector<const Work*> left;
        for (const Work& work : works) left.push_back(&work);
        const bool done = Until([&] {
          std::erase_if(left, [&](const Work* work) {
            const auto answer = caller.Run(*work, kBeam);
            if (!answer.ok()) found.Error(answer.status());
            return !answer.ok() || answer->tuned;
          });
          return left.empty();
        });
        if (!done) all = false;
      });
    }
    threads.clear();
    return all;
  }

  // Every daemon has the rows of every work on its disk.
  bool AllHaveAll() {
    return Until(
        [&] {
          for (int i = 0; i < fleet_->size(); ++i) {
            const auto rows = fleet_->Rows(i, "tuning");
            if (!rows.ok() || *rows < static_cast<int64_t>(works_.size())) return false;
          }
          return true;
        },
        30);
  }

  absl::Status Cold() {
    const std::vector<Work> works = NewWorks(options_.kernels);
    std::fprintf(stderr, "cold: %d daemons, %d clients, %d kernels\n", options_.daemons,
                 options_.clients, options_.kernels);
    Found first, later;
    const auto begin = Clock::now();
    {
      const std::vector<std::string> addresses = Addresses();
      std::vector<std::jthread> threads;
      for (int c = 0; c < options_.clients; ++c) {
        threads.emplace_back([&, c] {
          Caller caller(addresses[static_cast<size_t>(c) % addresses.size()]);
          for (size_t k = 0; k < works.size(); ++k) {
            const Work& work = works[(static_cast<size_t>(c) * 7 + k) % works.size()];
            const auto answer = caller.Run(work, kBeam);
            answer.ok() ? first.Seconds(answer->seconds) : first.Error(answer.status());
          }
        });
      }
    }
    table_.Add("cold: first answers of all clients", absl::StrFormat("%.1f s", Since(begin)));
    table_.Add("cold: one answer, p50", absl::StrFormat("%.0f ms", 1e3 * first.Percentile(0.5)));
    const bool tuned = TuneEverywhere(works, later);
    table_.Add("cold: tuned on every daemon", absl::StrFormat("%.1f s", Since(begin)),
               Cat("<= ", kPatience, " s"), tuned);
    AddErrors("cold", first.errors() + later.errors(), first.text() + later.text());
    table_.Add("cold: every winner on every daemon's disk", AllHaveAll() ? "yes" : "no", "yes",
               AllHaveAll());
    table_.AddEqual("cold: tunings in the cluster", fleet_->Sum(kTuned), options_.kernels);
    // Each compile leaves one row. A row that was compiled twice would be counted once there.
    double rows = 0;
    for (const char* store : {"draft", "kernel"}) {
      int64_t most = 0;
      for (int i = 0; i < fleet_->size(); ++i) {
        UOPD_ASSIGN(const int64_t here, fleet_->Rows(i, store));
        most = std::max(most, here);
      }
      rows += static_cast<double>(most);
      table_.Add(Cat("cold: different kernels of tier '", store, "'"), Cat(most));
    }
    table_.AddEqual("cold: compiles in the cluster",
                    fleet_->Sum(kCompiled) + fleet_->Sum(kUpgraded), rows);
    const double late = 100 * (1 - fleet_->Sum(kArrivedSoon) / fleet_->Sum(kArrived));
    AddTime("cold: records that took over 50 ms to the other daemons", late, 1, " %");
    return absl::OkStatus();
  }

  absl::Status Join(const std::string& name) {
    std::fprintf(stderr, "%s: one daemon more, with an empty disk\n", name.c_str());
    std::string resnet;
    if (options_.resnet) {
      UOPD_ASSIGN(resnet, ResNet50Graph(fleet_->daemon(0).address()));
      Caller one(fleet_->daemon(0).address());
      UOPD_TRY(one.Prepare(resnet).status());
      // Drafts are replaced behind the answer, and what is compiled is sent.
      const bool sent = Until([&] {
        const auto again = one.Prepare(resnet);
        return again.ok() && again->cache().kernels_draft() == 0 &&
               fleet_->Metric(0, "uopd_cluster_queue_bytes") == 0;
      });
      if (!sent) return absl::DeadlineExceededError("ResNet-50 does not get ready");
    }
    UOPD_TRY(fleet_->Join());
    const int fourth = fleet_->size() - 1;
    Caller caller(fleet_->daemon(fourth).address());
    Found found;
    for (const Work& work : works_) {
      const auto answer = caller.Run(work, kBeam);
      answer.ok() ? found.Seconds(answer->seconds) : found.Error(answer.status());
      if (answer.ok() && !answer->tuned)
        found.Error(absl::InternalError("a kernel without the winner"));
    }
    AddErrors(name, found.errors(), found.text());
    table_.Add(Cat(name, ": first answer of a kernel, p50"),
               absl::StrFormat("%.1f ms", 1e3 * found.Percentile(0.5)));
    if (options_.resnet) {
      const auto begin = Clock::now();
      UOPD_ASSIGN(const v1::PrepareResponse ready, caller.Prepare(resnet));
      AddTime(Cat(name, ": ResNet-50 ready to launch"), 1e3 * Since(begin), 150, " ms");
      table_.Add(Cat(name, ": kernels of ResNet-50, and of them found in the cluster"),
                 // what the cluster announced is on the disk already
                 Cat(ready.signature().kernels(), ", ",
                     ready.cache().kernels_cluster() + ready.cache().kernels_disk()));
    }
    table_.AddEqual(Cat(name, ": compiles of the new daemon"), fleet_->Metric(fourth, kCompiled),
                    0);
    table_.AddEqual(Cat(name, ": tunings of the new daemon"), fleet_->Metric(fourth, kTuned), 0);
    // The cluster stays as large as it was.
    fleet_->Leave();
    return absl::OkStatus();
  }

  // The load, with a fault or without one. Adds to `seconds` what each warm call took.
  absl::Status RunSlice(const NamedFault& fault, bool breaks, std::vector<double>& seconds) {
    const std::string name = Cat(fault.name, breaks ? "" : " (without)");
    const std::vector<Work> works = NewWorks(options_.kernels_of_fault);
    const double tuned = fleet_->Sum(kTuned), failed = fleet_->Sum(kFailed);
    const bool kills = fault.name == "kill" && breaks;
    Found found;
    WarmLoad load(Addresses(), options_.clients);
    {
      std::vector<std::jthread> cold;
      for (const std::string& address : Addresses()) {
        cold.emplace_back([&, address] {
          Caller caller(address);
          for (const Work& work : works) {
            const auto answer = caller.Run(work, kBeam);
            // The clients of a daemon that was killed know it.
            if (!answer.ok() && !(kills && absl::IsUnavailable(answer.status())))
              found.Error(answer.status());
          }
        });
      }
      // Whoever tunes must be met while it does.
      if (!kills) std::this_thread::sleep_for(milliseconds(500));
      if (breaks) UOPD_TRY(fault.begin(*fleet_));
      std::this_thread::sleep_for(fault.lasts);
      if (breaks) UOPD_TRY(fault.end(*fleet_));
    }
    std::this_thread::sleep_for(milliseconds(2000));
    std::ranges::copy(load.seconds(), std::back_inserter(seconds));
    load.Stop();
    const auto begin = Clock::now();
    const bool all = TuneEverywhere(works, found);
    const std::vector<std::string> errors = load.errors();
    if (!breaks) {
      if (!errors.empty() || found.errors() > 0 || !all)
        AddErrors(name, found.errors() + static_cast<int64_t>(errors.size()),
                  found.text() + (errors.empty() ? "" : errors[0]));
      return absl::OkStatus();
    }
    table_.Add(Cat(name, ": tuned on every daemon after it"),
               absl::StrFormat("%.1f s", Since(begin)), Cat("<= ", kPatience, " s"), all);
    AddErrors(name, found.errors() + static_cast<int64_t>(errors.size()),
              found.text() + (errors.empty() ? "" : errors[0]));
    table_.AddEqual(Cat(name, ": tunings to the end"), fleet_->Sum(kTuned) - tuned,
                    options_.kernels_of_fault);
    table_.AddEqual(Cat(name, ": tunings that failed"), fleet_->Sum(kFailed) - failed, 0);
    const bool everywhere = AllHaveAll();
    table_.Add(Cat(name, ": every winner on every daemon's disk"), everywhere ? "yes" : "no", "yes",
               everywhere);
    return absl::OkStatus();
  }

  absl::Status Break(const NamedFault& fault) {
    std::fprintf(stderr, "%s: %s\n", fault.name.c_str(), fault.doc.c_str());
    std::vector<double> without, with;
    // A round of a short fault has few calls.
    const int rounds = fault.lasts < kShort ? 2 * options_.rounds : options_.rounds;
    for (int round = 0; round < rounds; ++round) {
      UOPD_TRY(RunSlice(fault, false, without));
      UOPD_TRY(RunSlice(fault, true, with));
    }
    const double calm = P99(without), broken = P99(with);
    table_.Add(Cat(fault.name, ": p99 of ", without.size(), " and ", with.size(),
                   " warm executes, without and with"),
               absl::StrFormat("%.2f, %.2f ms", 1e3 * calm, 1e3 * broken));
    const std::string name = Cat(fault.name, ": ratio of the two");
    const double ratio = broken / std::max(calm, 1e-9);
    if (fault.control)
      table_.Add(name, absl::StrFormat("%.2f", ratio));
    else
      AddTime(name, ratio, 1.2, "");
    return absl::OkStatus();
  }

  const ShowOptions& options_;
  Table& table_;
  std::unique_ptr<Fleet> fleet_;
  std::vector<Work> works_;
};

}  // namespace

absl::Status RunShow(const ShowOptions& options, Table& table) {
  return Show(options, table).Run();
}

}  // namespace uopd::cluster
