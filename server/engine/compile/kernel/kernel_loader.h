// SPDX-License-Identifier: MIT
// Gets one kernel by its keys: from memory, from the cache, or by building it. Loads it on its
// device.
//
//   graph ─ GraphCompiler ─► source ─ KernelCompiler ─► KernelRecord ─ Device::Load ─► Kernel
//
// The cache says which source was chosen for the device, and has the record of this source
// (kernel_keys.h). If it does not know the source, the source is made here: that takes far less
// time than the compiler, which then may have nothing to do.
//
// A kernel may exist twice: as a draft in the store "draft", and optimised in the store "kernel"
// (Tier).
//
// Thread-safe. If several callers want the same kernel at the same time, it is built once. This
// also holds for daemons that share the store, and for devices for which the same source is chosen:
// the key of a kernel contains neither the device's name nor what only led to its source. Each
// device loads the kernel for itself. A cached value that does not decode or load is counted as
// corrupt, built again and replaced.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/base/wait/single_flight.h"
#include "cache/load_or_compute.h"
#include "core/base/mutex.h"
#include "core/base/work_limits.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/base/request_context.h"
#include "server/engine/compile/kernel/kernel.h"
#include "server/engine/compile/kernel/kernel_compiler.h"
#include "server/engine/compile/kernel/kernel_keys.h"
#include "server/engine/compile/source/graph_compiler.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {

struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  CacheResult from = CacheResult::kUnspecified;
};

// The code of a kernel is made in one of two ways. Both compute the same bits.
enum class Tier : uint8_t {
  kOptimised,
  // The optimised kernel if it is in memory or in the store, else a draft: it is compiled in a
  // fraction of the time. If the compiler makes no draft of this kernel, the optimised kernel.
  kDraft,
  // The optimised kernel that is to replace a draft. Requests do not wait for it.
  kUpgrade,
  // The optimised kernel of a program that the daemon wants itself. Requests do not wait for it.
  kOwn,
};

// Which kernel is wanted, and with what it will be used. All members are borrowed.
struct KernelRequest {
  std::string_view graph;  // Item::graph
  DeviceState* device = nullptr;
  const CompileOptions& options;
  const std::vector<codegen::Opt>* opts = nullptr;  // as tuning found them; null: as options say
  const std::vector<int64_t>& capacities;           // bytes of the buffers that it will use
  Tier tier = Tier::kOptimised;
  double gain = 1;  // TuningRecord::gain of `opts`

  // This request with the opts that tuning found. `found` outlives the request that is returned.
  KernelRequest TunedAs(const TuningRecord& found) const {
    KernelRequest out = *this;
    out.opts = &found.opts;
    out.gain = found.gain();
    return out;
  }
};

// The terms of the lease under which a kernel is built.
struct LeaseTerms {
  std::string owner;  // for people to read
  // How long others wait for a daemon that died during a build. A living daemon renews the lease.
  int64_t ttl_us = 5'000'000;
  // LoadOptions::patience. A live owner has its kernel within the compiler's limit; the rest is for
  // its queue.
  std::chrono::microseconds patience = std::chrono::minutes(2);
};

class KernelLoader {
 public:
  // All references outlive the loader.
  // `upgrades` compiles the kernels that no request waits for. Null: `compiler` does. `failures`
  // remembers kernels that cannot be built. Null: each request finds out.
  KernelLoader(const GraphCompiler& graph_compiler, KernelCompiler& compiler, cache::Store& store,
               LeaseTerms lease, KernelCompiler* upgrades = nullptr,
               RecentFailures* failures = nullptr)
      : graph_compiler_(graph_compiler),
        compiler_(compiler),
        upgrade_compiler_(upgrades == nullptr ? compiler : *upgrades),
        store_(store),
        lease_(std::move(lease)),
        failures_(failures) {}

  // Adds to `timings`. INVALID_ARGUMENT: the opts do not apply.
  absl::StatusOr<LoadedKernel> Get(const RequestContext& request, const KernelRequest& kernel,
                                   PhaseTimings* timings) UOPD_EXCLUDES(mu_);

 private:
  // The two forms of a kernel.
  struct Form {
    const KernelStores& stores;
    Digest graph;
    cache::Key choice;  // also the key of the kernel in memory and of its failures
    bool draft = false;
  };

  // The record that the store has. `knows_choice`: whether it knew which one is wanted.
  std::optional<cache::Loaded> LookUp(const KernelRequest& wanted, const Form& form,
                                      bool* knows_choice);
  // The kernel, if the store has it; nullopt: it does not, or the value is damaged.
  std::optional<LoadedKernel> MaybeStored(const KernelRequest& wanted, const Form& form,
                                          PhaseTimings* timings);
  absl::StatusOr<LoadedKernel> Obtain(const RequestContext& request, const KernelRequest& wanted,
                                      const Form& form, PhaseTimings* timings);
  // The record: the one that the store has, or that of the source that is made here. `limits` may
  // end it early.
  absl::StatusOr<cache::Loaded> Make(const WorkLimits& limits, const KernelRequest& wanted,
                                     const Form& form, cache::Use use, PhaseTimings* timings);
  absl::StatusOr<KernelSource> Lower(const WorkLimits& limits, const KernelRequest& wanted,
                                     const Form& form, PhaseTimings* timings) const;
  // The record. `limits` may end the compiler early.
  absl::StatusOr<std::string> Compile(const WorkLimits& limits, const KernelRequest& wanted,
                                      const Form& form, const KernelSource& source,
                                      PhaseTimings* timings) const;
  // Whether failures of this kernel are remembered.
  bool Remembers(const KernelRequest& wanted) const {
    return failures_ != nullptr && wanted.options.caches_compiles();
  }
  // The failure that is remembered; else OK.
  absl::Status FailedBefore(const KernelRequest& wanted, const Form& form) const;
  // Remembers a failure that would happen again.
  void RememberFailure(const KernelRequest& wanted, const Form& form,
                       const absl::Status& status) const;
  static absl::StatusOr<std::shared_ptr<const Kernel>> Load(std::string_view record,
                                                            const KernelRequest& request,
                                                            bool draft, PhaseTimings* timings);
  // Where a kernel is loaded: the address of its choice, and its device.
  using Place = std::pair<Digest, const DeviceState*>;
  std::shared_ptr<const Kernel> Find(const Place& place) UOPD_EXCLUDES(mu_);
  void Remember(const Place& place, const std::shared_ptr<const Kernel>& kernel) UOPD_EXCLUDES(mu_);

  const GraphCompiler& graph_compiler_;
  KernelCompiler& compiler_;
  KernelCompiler& upgrade_compiler_;
  cache::Store& store_;
  const LeaseTerms lease_;
  RecentFailures* const failures_;              // null: none
  cache::SingleFlight<cache::Loaded> flights_;  // by choice
  // That must compute, so they join no flight that may read.
  cache::SingleFlight<cache::Loaded> anew_;
  cache::LoadGroup records_;  // choices of other devices or opts may lead to the same record
  Mutex mu_;
  absl::flat_hash_map<Place, std::weak_ptr<const Kernel>> loaded_ UOPD_GUARDED_BY(mu_);
  size_t sweep_at_ UOPD_GUARDED_BY(mu_) = 1024;  // at this size, drop expired entries
};

}  // namespace uopd::engine
