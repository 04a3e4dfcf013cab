// SPDX-License-Identifier: MIT
// Kernels by their keys: from memory, from the cache, or built; loaded on their device.
//
// Thread-safe. Concurrent callers that want the same kernel cause one build, across the daemons
// that share the store and across devices with equal targets too: the key of a kernel has facts
// about its device and not its name. Loaded is it on each device by itself. A cached value that
// does not decode or load is counted as corrupt, built again and replaced.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/load_or_compute.h"
#include "core/base/mutex.h"
#include "server/engine/base/request_context.h"
#include "server/engine/compile/kernel_compiler.h"
#include "server/engine/compile/pipeline.h"
#include "server/engine/compile/program.h"

namespace uopd::engine {

struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  CacheResult from = CacheResult::kUnspecified;  // kMemory, kDisk or kMiss
};

// Which kernel, and what it will be used with. Borrows everything.
struct KernelRequest {
  std::string_view graph;  // Item::graph
  DeviceState* device = nullptr;
  const CompileOptions& options;
  const std::vector<codegen::Opt>* opts = nullptr;  // as tuning found them; null: as options say
  const std::vector<int64_t>& capacities;           // bytes of the buffers that it will get
};

// Under which lease a kernel is built.
struct LeaseTerms {
  std::string owner;  // for people to read
  // How long others wait for a daemon that died in the middle; renewed while it lives.
  int64_t ttl_us = 5'000'000;
};

class KernelLoader {
 public:
  // All references outlive the loader.
  KernelLoader(const Pipeline& pipeline, KernelCompiler& compiler, cache::Store& store,
               LeaseTerms lease)
      : pipeline_(pipeline), compiler_(compiler), store_(store), lease_(std::move(lease)) {}

  // Adds to `timings`. INVALID_ARGUMENT for opts that do not apply.
  absl::StatusOr<LoadedKernel> Get(const RequestContext& request, const KernelRequest& kernel,
                                   PhaseTimings* timings) UOPD_EXCLUDES(mu_);

 private:
  // For as long as `limits` say.
  absl::StatusOr<std::string> Build(const cache::WaitLimits& limits, const KernelRequest& kernel,
                                    PhaseTimings* timings) const;
  static absl::StatusOr<std::shared_ptr<const Kernel>> Load(std::string_view record,
                                                            const KernelRequest& request,
                                                            PhaseTimings* timings);
  // Where a kernel is loaded: the address of its key, and the device.
  using Place = std::pair<Digest, const DeviceState*>;
  std::shared_ptr<const Kernel> Find(const Place& place) UOPD_EXCLUDES(mu_);
  void Remember(const Place& place, const std::shared_ptr<const Kernel>& kernel) UOPD_EXCLUDES(mu_);

  const Pipeline& pipeline_;
  KernelCompiler& compiler_;
  cache::Store& store_;
  const LeaseTerms lease_;
  cache::LoadGroup flights_;
  Mutex mu_;
  absl::flat_hash_map<Place, std::weak_ptr<const Kernel>> loaded_ UOPD_GUARDED_BY(mu_);
  size_t sweep_at_ UOPD_GUARDED_BY(mu_) = 1024;  // entries at which the expired ones are dropped
};

}  // namespace uopd::engine
