// SPDX-License-Identifier: MIT
// Gets one kernel by its key: from memory, from the cache, or by building it. Loads it on its
// device.
//
//   graph ─ GraphCompiler ─► source ─ KernelCompiler ─► KernelRecord ─ Device::Load ─► Kernel
//
// A kernel may exist twice: as a draft in the store "draft", and optimised in the store "kernel"
// (Tier).
//
// Thread-safe. If several callers want the same kernel at the same time, it is built once. This
// also holds for daemons that share the store, and for devices with equal targets: the key of a
// kernel contains facts about its device but not the device's name. Each device loads the kernel
// for itself. A cached value that does not decode or load is counted as corrupt, built again and
// replaced.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/load_or_compute.h"
#include "core/base/mutex.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/base/request_context.h"
#include "server/engine/compile/kernel/kernel.h"
#include "server/engine/compile/kernel/kernel_compiler.h"
#include "server/engine/compile/source/graph_compiler.h"

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
};

// The terms of the lease under which a kernel is built.
struct LeaseTerms {
  std::string owner;  // for people to read
  // How long others wait for a daemon that died during a build. A living daemon renews the lease.
  int64_t ttl_us = 5'000'000;
  // LoadOptions::patience. A live owner has its kernel within the compiler's limit; the rest is for its queue.
  std::chrono::microseconds patience = std::chrono::minutes(2);
};

class KernelLoader {
 public:
  // All references outlive the loader.
  // `upgrades` compiles the kernels that no request waits for. Null: `compiler` does. `failures` remembers kernels that cannot be
  // built. Null: each request finds out.
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
  // The optimised kernel, or the draft if `draft` is true.
  absl::StatusOr<LoadedKernel> Obtain(const RequestContext& request, const KernelRequest& wanted,
                                      const cache::Key& key, bool draft, PhaseTimings* timings);
  // The optimised kernel if the store has it; nullopt: it does not, or the value is damaged.
  std::optional<LoadedKernel> MaybeStored(const KernelRequest& wanted, const cache::Key& key,
                                          PhaseTimings* timings);
  // Build, unless it failed a moment ago.
  absl::StatusOr<std::string> BuildUnlessFailed(const cache::WaitLimits& limits,
                                                const KernelRequest& kernel, const cache::Key& key,
                                                bool draft, PhaseTimings* timings) const;
  // Builds the record. `limits` may end it early.
  absl::StatusOr<std::string> Build(const cache::WaitLimits& limits, const KernelRequest& kernel,
                                    bool draft, PhaseTimings* timings) const;
  static absl::StatusOr<std::shared_ptr<const Kernel>> Load(std::string_view record,
                                                            const KernelRequest& request,
                                                            bool draft, PhaseTimings* timings);
  // Where a kernel is loaded: the address of its key, and its device.
  using Place = std::pair<Digest, const DeviceState*>;
  std::shared_ptr<const Kernel> Find(const Place& place) UOPD_EXCLUDES(mu_);
  void Remember(const Place& place, const std::shared_ptr<const Kernel>& kernel) UOPD_EXCLUDES(mu_);

  const GraphCompiler& graph_compiler_;
  KernelCompiler& compiler_;
  KernelCompiler& upgrade_compiler_;
  cache::Store& store_;
  const LeaseTerms lease_;
  RecentFailures* const failures_;  // null: none
  cache::LoadGroup flights_;
  Mutex mu_;
  absl::flat_hash_map<Place, std::weak_ptr<const Kernel>> loaded_ UOPD_GUARDED_BY(mu_);
  size_t sweep_at_ UOPD_GUARDED_BY(mu_) = 1024;  // at this size, drop expired entries
};

}  // namespace uopd::engine
