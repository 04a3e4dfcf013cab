// SPDX-License-Identifier: MIT
// uopd_bad_kernels: plants bad kernels in the searches of a cluster of daemons, and checks what is
// left of them.
//
// Each kernel has one bad candidate, of one of six kinds (plant.h). The daemons tune their shares
// at the same time. After each kernel the daemon must answer a warm call. In the end each plant is
// one row of the quarantine that every daemon knows, and no other row is there; no daemon ended,
// and none holds more processes, descriptors or memory than before.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "absl/strings/str_format.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "tests/cluster/caller.h"
#include "tests/cluster/fleet.h"
#include "tests/cluster/table.h"
#include "tests/plants/plant.h"
#include "tests/support/footprint.h"

namespace uopd::plants {
namespace {

using cluster::Caller;
using cluster::Fleet;
using cluster::Table;
using cluster::Work;

constexpr char kUsage[] =
    "usage: uopd_bad_kernels [--kernels N] [--daemons N] [--run-ms MS] [--uopd PATH] [--redis "
    "PROGRAM]\n";
constexpr uint32_t kBeam = 2;
constexpr double kPatience = 120;  // seconds, for the tuning of one kernel
constexpr int64_t kElements = 1024;
// Pools of connections and allocators keep a part of what they had. The memory includes what a
// daemon keeps of good kernels by intent: programs and rows of the cache.
constexpr int kMoreDescriptors = 4;
constexpr double kMoreMiB = 16, kMoreMiBPerKernel = 0.05;

struct Options {
  std::string uopd, redis = "redis-server";
  int kernels = 500, daemons = 3, run_ms = 1500;
};

bool Until(double seconds, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string BytesOf(const std::vector<int32_t>& values) {
  std::string out(values.size() * sizeof(int32_t), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

Work WorkOf(const Plant& plant) {
  std::vector<int32_t> x(kElements), y(kElements), sum(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    x[i] = static_cast<int32_t>(i * 7 % 50);
    y[i] = static_cast<int32_t>(i * 13 % 60);
    sum[i] = x[i] * y[i] + MarkerOf(plant);
  }
  return {GraphOf(plant, kElements), {BytesOf(x), BytesOf(y)}, BytesOf(sum)};
}

// What the workers noted of a plant: its names in the quarantine.
std::set<std::string> JobsOf(const std::string& folder, const Plant& plant) {
  std::set<std::string> out;
  std::error_code error;
  for (const auto& job :
       std::filesystem::directory_iterator(Cat(folder, "/", MarkerOf(plant), "/jobs"), error))
    out.insert(job.path().filename().string());
  return out;
}

class BadKernels {
 public:
  BadKernels(const Options& options, std::string folder, Table& table)
      : options_(options), folder_(std::move(folder)), table_(table) {
    for (int i = 0; i < options.kernels; ++i)
      plants_.push_back({static_cast<Kind>(i % kKinds), i / kKinds});
  }

  absl::Status Run() {
    UOPD_ASSIGN(fleet_,
                Fleet::Start({.uopd = options_.uopd,
                              .redis = options_.redis,
                              .flags = {"--tune-candidates=3", "--tune-workers=1",
                                        "--tune-settle-ms=0", "--tune-device-bytes=67108864",
                                        Cat("--tune-run-ms=", options_.run_ms)}},
                             options_.daemons));
    std::vector<Caller> callers;
    for (int d = 0; d < fleet_->size(); ++d) callers.emplace_back(fleet_->daemon(d).address());
    UOPD_TRY(Everywhere([&](int d) { return WarmUp(d, callers[static_cast<size_t>(d)]); }));
    const auto begin = std::chrono::steady_clock::now();
    UOPD_TRY(Everywhere([&](int d) { return TuneShare(d, callers[static_cast<size_t>(d)]); }));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    table_.Add("kernels with a plant, tuned",
               absl::StrFormat("%d in %.0f s", options_.kernels, took.count()));
    table_.AddEqual("wrong or failed warm calls", static_cast<double>(errors_), 0);
    CheckQuarantine("");
    CheckFootprints();
    // What a daemon knows, it knows from its own disk when it starts again.
    fleet_->Kill(0);
    UOPD_TRY(fleet_->Restart(0));
    CheckQuarantine(", after a restart of the first");
    return absl::OkStatus();
  }

 private:
  // Calls `act` for each daemon on a thread of its own. Returns the first error.
  absl::Status Everywhere(const std::function<absl::Status(int)>& act) {
    std::vector<absl::Status> status(static_cast<size_t>(fleet_->size()));
    std::vector<std::jthread> threads;
    for (int d = 0; d < fleet_->size(); ++d)
      threads.emplace_back([&, d] { status[static_cast<size_t>(d)] = act(d); });
    threads.clear();
    for (const absl::Status& one : status) UOPD_TRY(one);
    return absl::OkStatus();
  }

  absl::Status Tune(Caller& caller, const Work& work) {
    absl::Status failed;
    const bool tuned = Until(kPatience, [&] {
      const auto answer = caller.Run(work, kBeam);
      failed = answer.status();
      return !answer.ok() || answer->tuned;
    });
    UOPD_TRY(failed);
    return tuned ? absl::OkStatus() : absl::DeadlineExceededError("a kernel is not tuned");
  }

  absl::Status WarmUp(int d, Caller& caller) {
    // Everything that a daemon opens once has been opened: the pools of workers, connections to the
    // server.
    UOPD_TRY(Tune(caller, WorkOf({Kind::kNone, d})));
    const Work warm = WorkOf({Kind::kNone, 1000});
    UOPD_ASSIGN(const v1::PrepareResponse prepared, caller.Prepare(warm.graph));
    UOPD_TRY(caller.Execute(warm, prepared.digest()).status());
    const pid_t pid = fleet_->daemon(d).pid();
    int least = 1 << 20;
    Until(2, [&] {  // the workers of tuning end
      least = std::min(least, test::FootprintOf(pid).children);
      return false;
    });
    const MutexLock lock(mu_);
    digest_ = prepared.digest();
    before_[d] = {pid, test::FootprintOf(pid)};
    before_[d].held.children = least;
    return absl::OkStatus();
  }

  absl::Status TuneShare(int d, Caller& caller) {
    const Work warm = WorkOf({Kind::kNone, 1000});
    for (size_t i = static_cast<size_t>(d); i < plants_.size();
         i += static_cast<size_t>(fleet_->size())) {
      UOPD_TRY(WithFrame(Tune(caller, WorkOf(plants_[i])),
                         Cat("tuning a kernel with a plant (", Name(plants_[i].kind), ")")));
      const auto answer = caller.Execute(warm, digest_);
      if (!answer.ok()) {
        ++errors_;
        std::fprintf(stderr, "  a warm call: %s\n", StatusText(answer.status()).c_str());
      }
      if (const int done = ++done_; done % 50 == 0) std::fprintf(stderr, "  %d kernels\n", done);
    }
    return absl::OkStatus();
  }

  void CheckQuarantine(const std::string& when) {
    std::map<std::string, Kind> jobs;
    std::map<Kind, int> ran;
    for (const Plant& plant : plants_) {
      const std::set<std::string> names = JobsOf(folder_, plant);
      if (names.size() == 1) ++ran[plant.kind];
      for (const std::string& job : names) jobs[job] = plant.kind;
    }
    if (when.empty()) {
      int all = 0;
      for (const auto& [kind, count] : ran) {
        table_.Add(Cat("plants that ran: ", Name(kind)), Cat(count));
        all += count;
      }
      table_.AddEqual("plants that ran, each as one job", all, options_.kernels);
    }
    for (int d = 0; d < fleet_->size(); ++d) {
      int known = 0, other = 0, otherwise = 0;
      std::string text;
      Until(20, [&] {
        const auto rows = cluster::QuarantineOf(fleet_->daemon(d).address());
        known = other = otherwise = 0;
        text = rows.ok() ? "" : StatusText(rows.status());
        if (!rows.ok()) return false;
        for (const auto& [id, reason] : *rows) {
          const auto job = jobs.find(id);
          ++(job == jobs.end() ? other : known);
          const bool expected =
              job != jobs.end() && reason.find(ReasonOf(job->second)) != std::string::npos;
          if (expected) continue;
          if (job != jobs.end()) ++otherwise;
          if (text.size() < 500)
            Append(text, "  ", job == jobs.end() ? "no plant" : Name(job->second), ": ", reason,
                   "\n");
        }
        return known == options_.kernels;
      });
      const std::string who = Cat("daemon ", d, when);
      table_.AddEqual(Cat(who, ": plants in its quarantine"), known, options_.kernels);
      table_.AddEqual(Cat(who, ": with another reason than the plant's"), otherwise, 0);
      table_.AddEqual(Cat(who, ": other jobs there"), other, 0);
      if (!text.empty()) std::fprintf(stderr, "%s", text.c_str());
    }
  }

  void CheckFootprints() {
    const double more_mib = kMoreMiB + kMoreMiBPerKernel * options_.kernels;
    for (int d = 0; d < fleet_->size(); ++d) {
      const auto& [pid, before] = before_[d];
      test::Footprint now;
      Until(20, [&] {
        now = test::FootprintOf(pid);
        return now.children <= before.children && now.zombies == 0 &&
               now.descriptors <= before.descriptors + kMoreDescriptors &&
               now.memfds <= before.memfds;
      });
      const std::string who = Cat("daemon ", d);
      table_.Add(Cat(who, ": the same process"), Cat(fleet_->daemon(d).pid()), Cat(pid),
                 fleet_->daemon(d).pid() == pid && now.resident_mib > 0);
      AddBound(Cat(who, ": child processes"), now.children, before.children, 0);
      table_.AddEqual(Cat(who, ": zombies"), now.zombies, 0);
      AddBound(Cat(who, ": descriptors"), now.descriptors, before.descriptors, kMoreDescriptors);
      AddBound(Cat(who, ": memfds"), now.memfds, before.memfds, 0);
      AddBound(Cat(who, ": resident MiB"), now.resident_mib, before.resident_mib, more_mib);
    }
  }

  void AddBound(const std::string& what, double now, double before, double more) {
    table_.Add(what, absl::StrFormat("%.4g", now), absl::StrFormat("<= %.4g + %.4g", before, more),
               now <= before + more);
  }

  struct Before {
    pid_t pid = -1;
    test::Footprint held;
  };
  const Options options_;
  const std::string folder_;
  Table& table_;
  std::vector<Plant> plants_;
  std::unique_ptr<Fleet> fleet_;
  std::atomic<int> done_{0}, errors_{0};
  Mutex mu_;
  std::string digest_;            // of the warm program; written before the shares are tuned
  std::map<int, Before> before_;  // by daemon; the same
};

int Main(const Options& options) {
  std::string folder = (std::filesystem::temp_directory_path() / "uopd-plants-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return std::perror("uopd_bad_kernels"), 1;
  setenv("UOPD_PLANTS", folder.c_str(), 1);
  Table table;
  const absl::Status status = BadKernels(options, folder, table).Run();
  std::filesystem::remove_all(folder);
  std::printf("\n%s", table.Text().c_str());
  if (!status.ok()) std::printf("It ended early: %s\n", StatusText(status).c_str());
  return status.ok() && table.holds() ? 0 : 1;
}

}  // namespace
}  // namespace uopd::plants

int main(int argc, char** argv) {
  uopd::plants::Options options;
  options.uopd =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "uopd_planted").string();
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (i + 1 >= argc) return std::fputs(uopd::plants::kUsage, stderr), 2;
    const char* value = argv[++i];
    if (arg == "--kernels") {
      options.kernels = std::atoi(value);
    } else if (arg == "--daemons") {
      options.daemons = std::atoi(value);
    } else if (arg == "--run-ms") {
      options.run_ms = std::atoi(value);
    } else if (arg == "--uopd") {
      options.uopd = value;
    } else if (arg == "--redis") {
      options.redis = value;
    } else {
      return std::fputs(uopd::plants::kUsage, stderr), 2;
    }
  }
  return uopd::plants::Main(options);
}
