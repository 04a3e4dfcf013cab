// SPDX-License-Identifier: MIT
#include "server/engine/tune/workers.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "core/base/config/budget.h"
#include "core/base/machine/process_limits.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

using worker::Supervisor;

// Added to the daemon's own nice value. Kernels of running requests come first, then compiles, then
// tuning. Upgrades come last: the threads of a run wait for each other, so a compiler on one
// processor delays all of them.
constexpr int kCompileNice = 5, kTuningNice = 10, kUpgradeNice = 19;
// Addresses that a measuring process needs besides the buffers: for the program with LLVM, and for
// each thread its stack and its part of malloc.
constexpr uint64_t kOwnAddresses = uint64_t{2} << 30, kThreadAddresses = uint64_t{160} << 20;
// Addresses that a compiling process needs besides what it fills: libraries and the arenas of
// malloc.
constexpr uint64_t kCompilerAddresses = uint64_t{1} << 30;

// The address space of a process that compiles. In a control group, a compiler that wants more than
// half of the memory is told that there is none; otherwise the kernel would kill it, or another
// one.
uint64_t CompilerAddresses(const Config& config) {
  const auto wanted = static_cast<uint64_t>(config.compile_worker_bytes());
  const ProcessLimits& limits = ProcessLimits::AtStart();
  if (wanted == 0 || !limits.memory) return wanted;
  return std::min(wanted, static_cast<uint64_t>(limits.memory->bytes) / 2 + kCompilerAddresses);
}

// Settings and the names of the devices, separated by commas.
struct PoolSource {
  const Config& config;
  std::string devices;
};

Supervisor::Options PoolOf(const PoolSource& source, const char* process, const char* pool,
                           int size, QuarantineStore* quarantine) {
  Supervisor::Options out;
  out.max_workers = size;
  out.setup.name = process;
  out.setup.devices = source.devices;
  out.setup.cpu_threads = 1;
  out.setup.cpu_features = source.config.device_cpu_features();
  out.setup.cuda_ptx = source.config.device_cuda_ptx();
  out.setup.cuda_specific = source.config.device_cuda_specific();
  out.setup.retire_above_rss_bytes =
      static_cast<uint64_t>(BudgetOf(source.config, ProcessLimits::AtStart()).worker_retires_bytes);
  out.on_kill = [pool] { metrics::WorkerKills({pool}).Increment(); };
  out.on_quarantine = [quarantine](const worker::QuarantineEntry& entry) {
    if (quarantine != nullptr && !entry.passing()) quarantine->Add(entry);
  };
  if (quarantine != nullptr)
    out.look_up = [quarantine](const Digest& job) { return quarantine->FindInCluster(job); };
  // Series from the start, so that the first one is a rise.
  metrics::WorkerKills({pool});
  metrics::WorkerLosses({pool});
  out.on_lost = [pool] { metrics::WorkerLosses({pool}).Increment(); };
  return out;
}

Supervisor::Options CompilePool(const PoolSource& source, const char* process, const char* pool,
                                int size, int nice) {
  Supervisor::Options out = PoolOf(source, process, pool, size, nullptr);
  out.setup.nice = nice;
  out.setup.address_space_bytes = CompilerAddresses(source.config);
  return out;
}

Supervisor::Options TuningPool(const PoolSource& source, QuarantineStore* quarantine) {
  const Config& config = source.config;
  const int size = static_cast<int>(config.tune_workers());
  Supervisor::Options out =
      PoolOf(source, "uopd-tune", "tuning", size > 0 ? size : UsableProcessors(), quarantine);
  out.setup.address_space_bytes = CompilerAddresses(config);
  out.setup.nice = kTuningNice;
  return out;
}

// A kernel of the CPU can take memory by itself. At this limit it gets none, and dies of that
// alone; without a limit the machine would run out of memory. A measurement copies buffers: to fill
// them, and to answer with them. Drivers of GPUs reserve far more addresses than they use, so there
// is no such limit for them.
uint64_t AddressesOf(const worker::WorkerSetup& setup) {
  const auto machine = static_cast<uint64_t>(ProcessLimits::AtStart().memory_bytes());
  const auto threads =
      static_cast<uint64_t>(setup.cpu_threads > 0 ? setup.cpu_threads : UsableProcessors());
  return std::min(4 * setup.device_memory_bytes, std::max(machine, setup.device_memory_bytes)) +
         kOwnAddresses + threads * kThreadAddresses;
}

Supervisor::Options MeasurePool(const Config& config, const std::string& device,
                                QuarantineStore* quarantine) {
  Supervisor::Options out = PoolOf({config, device}, "uopd-measure", "measure", 1, quarantine);
  out.setup.nice = kTuningNice;
  // Kernels run with as many threads as in the daemon.
  out.setup.cpu_threads = static_cast<int>(config.device_cpu_threads());
  // The daemon's buffers are on the same device.
  const int64_t bytes =
      config.tune_device_bytes() > 0 ? config.tune_device_bytes() : config.limits_total_bytes();
  out.setup.device_memory_bytes = static_cast<uint64_t>(bytes);
  if (device.starts_with("CPU")) out.setup.address_space_bytes = AddressesOf(out.setup);
  out.setup.retire_above_rss_bytes = 0;
  return out;
}

}  // namespace

Workers::Workers(worker::ForkServer& forks, const Config& config,
                 std::span<const std::string> devices, int compilers, cache::Store& store)
    : tuning_quarantine_(store, "tuning"),
      measure_quarantine_(store, "measure"),
      compile_(forks, CompilePool({config, absl::StrJoin(devices, ",")}, "uopd-compile", "compile",
                                  compilers, kCompileNice)),
      upgrade_(forks, CompilePool({config, absl::StrJoin(devices, ",")}, "uopd-upgrade", "upgrade",
                                  compilers, kUpgradeNice)),
      tuning_(forks, TuningPool({config, absl::StrJoin(devices, ",")}, &tuning_quarantine_)) {
  for (const auto& entry : tuning_quarantine_.Load()) tuning_.quarantine().Add(entry);
  const std::vector<worker::QuarantineEntry> measured = measure_quarantine_.Load();
  for (const std::string& device : devices) {
    Supervisor::Options options = MeasurePool(config, device, &measure_quarantine_);
    auto pool = std::make_unique<Supervisor>(forks, std::move(options));
    // A job names its device, so entries that another device's pool stored do no harm.
    for (const auto& entry : measured) pool->quarantine().Add(entry);
    measure_.emplace_back(device, std::move(pool));
  }
  // What daemons of other machines put into quarantine, and take out of it, counts here too.
  for (const QuarantineStore* kept : {&tuning_quarantine_, &measure_quarantine_}) {
    const auto each = [this, kept](const auto& change) {
      for (const Pool& pool : Pools()) {
        if (pool.store == kept) change(pool.workers->quarantine());
      }
    };
    followed_.push_back(kept->Follow(
        [each](const worker::QuarantineEntry& entry) {
          each([&](worker::Quarantine& quarantine) { quarantine.Add(entry); });
        },
        [each](const Digest& job) {
          each([&](worker::Quarantine& quarantine) { quarantine.Remove(job); });
        }));
  }
}

worker::WorkerPools Workers::tuning(std::string_view device) {
  for (auto& [name, pool] : measure_) {
    if (name == device) return {tuning_, *pool};
  }
  UOPD_CHECK(false && "a device that is not configured");
}

std::vector<Workers::Pool> Workers::Pools() {
  std::vector<Pool> out = {{"compile", &compile_, nullptr},
                           {"upgrade", &upgrade_, nullptr},
                           {"tuning", &tuning_, &tuning_quarantine_}};
  for (auto& [device, pool] : measure_) {
    out.push_back({"measure", pool.get(), &measure_quarantine_});
  }
  return out;
}

std::map<std::string, worker::SupervisorStats> Workers::Stats() {
  std::map<std::string, worker::SupervisorStats> out;
  for (const Pool& pool : Pools()) {
    const worker::SupervisorStats stats = pool.workers->stats();
    worker::SupervisorStats& sum = out[pool.name];
    sum.done += stats.done;
    sum.failed += stats.failed;
    sum.crashed += stats.crashed;
    sum.timed_out += stats.timed_out;
    sum.cancelled += stats.cancelled;
    sum.refused += stats.refused;
    sum.workers += stats.workers;
    sum.idle += stats.idle;
  }
  return out;
}

std::vector<Workers::Quarantined> Workers::ListQuarantine() {
  std::vector<Quarantined> out;
  absl::flat_hash_set<std::pair<std::string_view, Digest>> seen;  // pools of one name share a store
  for (const Pool& pool : Pools()) {
    for (auto& entry : pool.workers->quarantine().entries()) {
      if (seen.emplace(pool.name, entry.job).second) out.push_back({pool.name, std::move(entry)});
    }
  }
  return out;
}

absl::StatusOr<size_t> Workers::ClearQuarantine(std::string_view id) {
  const bool hex = std::ranges::all_of(
      id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex || id.size() > 64) {
    return absl::InvalidArgumentError(
        "the id of a quarantined job is 64 hexadecimal digits, or the first ones of them");
  }
  std::vector<Quarantined> chosen = ListQuarantine();
  std::erase_if(chosen, [&](const Quarantined& q) { return !q.entry.job.Hex().starts_with(id); });
  if (!id.empty() && chosen.empty()) {
    return absl::NotFoundError(Cat("no job in quarantine has the id ", id));
  }
  const bool several = std::ranges::any_of(
      chosen, [&](const Quarantined& q) { return q.entry.job != chosen.front().entry.job; });
  if (!id.empty() && several) {
    return absl::InvalidArgumentError(
        Cat("several jobs in quarantine have ids that start with ", id));
  }
  for (const Quarantined& q : chosen) {
    for (const Pool& pool : Pools()) {
      pool.workers->quarantine().Remove(q.entry.job);
      if (pool.store != nullptr) pool.store->Remove(q.entry.job);
    }
  }
  return chosen.size();
}

}  // namespace uopd::engine
