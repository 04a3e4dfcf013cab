// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/telemetry/log.h"

namespace uopd::engine {
namespace {

void Count(CacheResult from, CacheOutcome& cache) {
  switch (from) {
    case CacheResult::kMemory:
      ++cache.kernels_memory;
      break;
    case CacheResult::kDisk:
      ++cache.kernels_disk;
      break;
    case CacheResult::kCluster:
      ++cache.kernels_cluster;
      break;
    case CacheResult::kShared:
      ++cache.kernels_shared;
      break;
    default:
      ++cache.kernels_compiled;
  }
}

// A long kernel that begins last is compiled alone, while other threads have nothing to do. The
// size of the graph tells roughly how long the compile takes.
std::vector<size_t> LongestFirst(const KernelSet& set) {
  std::vector<size_t> order(set.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair(-static_cast<int64_t>(set.kernels[i].graph.size()), i);
  });
  return order;
}

}  // namespace

int64_t BufferBytes(const schedule::Schedule& schedule, const schedule::BufferRef& ref) {
  const auto i = static_cast<size_t>(ref.index);
  return ref.kind == schedule::BufferRef::kArgument ? schedule.slots[i].bytes
                                                    : schedule.temporaries[i].bytes;
}

absl::StatusOr<std::shared_ptr<KernelSet>> KernelSet::Of(schedule::Schedule schedule,
                                                         const CompileOptions& options,
                                                         DeviceSet& devices) {
  auto set = std::make_shared<KernelSet>();
  set->options = options;
  set->schedule = std::move(schedule);
  std::map<std::pair<std::string_view, DeviceState*>, size_t> index;
  for (size_t i = 0; i < set->schedule.items.size(); ++i) {
    const schedule::Item& item = set->schedule.items[i];
    UOPD_ASSIGN(DeviceState * device, devices.Get(item.device));
    if (item.kind != schedule::Item::kKernel) continue;
    auto [it, added] = index.try_emplace({item.graph, device}, set->kernels.size());
    if (added) {
      set->kernels.push_back({.graph = item.graph, .device = device});
      set->kernels.back().capacities.assign(item.buffers.size(), INT64_MAX);
    }
    ScheduledKernel& kernel = set->kernels[it->second];
    kernel.items.push_back(i);
    for (size_t b = 0; b < item.buffers.size() && b < kernel.capacities.size(); ++b) {
      kernel.capacities[b] =
          std::min(kernel.capacities[b], BufferBytes(set->schedule, item.buffers[b]));
    }
  }
  return set;
}

KernelRequest KernelSet::RequestOf(size_t kernel) const {
  const ScheduledKernel& scheduled = kernels[kernel];
  return {scheduled.graph, scheduled.device, options, nullptr, scheduled.capacities};
}

absl::StatusOr<std::shared_ptr<KernelSet>> Kernels::Get(RequestContext& request,
                                                        schedule::Schedule schedule,
                                                        const CompileOptions& options) {
  UOPD_ASSIGN(std::shared_ptr<KernelSet> set,
              KernelSet::Of(std::move(schedule), options, devices_));
  struct Got {
    absl::StatusOr<LoadedKernel> kernel = absl::UnknownError("not run");
    PhaseTimings timings;
  };
  std::vector<Got> got(set->kernels.size());
  const std::vector<size_t> order = LongestFirst(*set);
  CompileProgress* const progress = request.maybe_progress.get();
  if (progress != nullptr) progress->kernels.store(static_cast<uint32_t>(got.size()));
  const auto get = [&](size_t turn) {
    const size_t i = order[turn];
    KernelRequest wanted = set->RequestOf(i);
    if (request.background) {
      wanted.tier = Tier::kOwn;
    } else if (drafts_ && wanted.device->device().compiler().makes_drafts()) {
      wanted.tier = Tier::kDraft;
    }
    got[i].kernel = GetOne(request, wanted, &got[i].timings);
    if (progress != nullptr) progress->ready.fetch_add(1);
  };
  if (request.background) {  // one after the other: the other processors are for the clients
    for (size_t turn = 0; turn < got.size(); ++turn) get(turn);
  } else {
    task_pool_.ParallelFor(request.caller, got.size(), get);
  }
  for (size_t i = 0; i < got.size(); ++i) {
    request.timings.Add(got[i].timings);
    UOPD_TRY(got[i].kernel.status());
    set->kernels[i].kernel = got[i].kernel->kernel;
    Count(got[i].kernel->from, request.cache);
  }
  return set;
}

absl::StatusOr<LoadedKernel> Kernels::GetOne(const RequestContext& request,
                                             const KernelRequest& wanted, PhaseTimings* timings) {
  if (auto found = tuning_.Find(wanted.graph, wanted.device->device(), wanted.options)) {
    KernelRequest tuned = wanted.TunedAs(*found);
    if (wanted.tier == Tier::kDraft) tuned.tier = Tier::kOptimised;
    auto kernel = loader_.Get(request, tuned, timings);
    if (!absl::IsInvalidArgument(kernel.status())) return kernel;
    // Everything that decides which opts apply is part of the key. So the stored value is damaged.
    UOPD_LOG(kWarn, "tuned opts do not apply", {"opts", Text(found->opts)},
             {"status", kernel.status()});
  }
  return loader_.Get(request, wanted, timings);
}

}  // namespace uopd::engine
