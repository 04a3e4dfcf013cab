// SPDX-License-Identifier: MIT
// The kernels of a schedule. They are the third artefact of a compile (compile_service.h).
//
// A KernelSet has every kernel of a schedule once, with the items that run it. Kernels gets them in
// parallel, each with the opts that tuning found before, if any. kernel_loader.h gets one kernel.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/compile/kernel/kernel_loader.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

// Size in bytes of a buffer of the schedule.
int64_t BufferBytes(const schedule::Schedule& schedule, const schedule::BufferRef& ref);

// One kernel of a schedule.
struct ScheduledKernel {
  std::string_view graph;  // Item::graph
  DeviceState* device = nullptr;
  std::vector<int64_t> capacities;  // bytes of each buffer; the least over all items
  std::vector<size_t> items;        // the items that run it
  std::shared_ptr<const Kernel> kernel;
};

// The kernels from which a program is assembled. It is assembled again when there is a better
// kernel.
//
// Plain data. One thread at a time uses it until a ProgramUpdate owns it. From then on only
// ScheduledKernel::kernel changes, under the lock of the ProgramUpdate. The set points into itself,
// so it may not be moved.
struct KernelSet {
  CompileOptions options;
  schedule::Schedule schedule;
  std::vector<ScheduledKernel> kernels;

  // The list of kernels to get. No kernel is loaded yet. Errors are those of DeviceSet::Get.
  static absl::StatusOr<std::shared_ptr<KernelSet>> Of(schedule::Schedule schedule,
                                                       const CompileOptions& options,
                                                       DeviceSet& devices);
  KernelRequest RequestOf(size_t kernel) const;
};

// Thread-safe.
class Kernels {
 public:
  // All references outlive this object. `task_pool` runs only tasks that do not wait for a compile.
  // `drafts`: a kernel that does not exist is compiled as a draft, which the caller upgrades.
  // Requests in the background get no drafts: nobody waits for them.
  Kernels(KernelLoader& loader, TuningService& tuning, DeviceSet& devices, TaskPool& task_pool,
          bool drafts = false)
      : loader_(loader),
        tuning_(tuning),
        devices_(devices),
        task_pool_(task_pool),
        drafts_(drafts) {}

  // Gets every kernel of the schedule. Fills request.timings and request.cache.
  absl::StatusOr<std::shared_ptr<KernelSet>> Get(RequestContext& request,
                                                 schedule::Schedule schedule,
                                                 const CompileOptions& options);

 private:
  absl::StatusOr<LoadedKernel> GetOne(const RequestContext& request, const KernelRequest& wanted,
                                      PhaseTimings* timings);

  KernelLoader& loader_;
  TuningService& tuning_;
  DeviceSet& devices_;
  TaskPool& task_pool_;
  const bool drafts_;
};

}  // namespace uopd::engine
