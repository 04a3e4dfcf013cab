// SPDX-License-Identifier: MIT
// What a graph's schedule depends on beside the graph: the default device, and the limits of the
// devices that the graph is on.
//
// Limits are those of the default device, and of each other device that the graph names if it has
// others. So the same graph has the same schedule on all machines whose devices are alike where it
// matters, however many they have and whatever those that it does not use are.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

struct ScheduleTarget {
  schedule::Options options;
  // The same by the names of the devices, each once, ascending: a graph may spell them otherwise.
  std::vector<std::pair<std::string, schedule::KernelLimits>> others;

  // Of the environment key: "default=CPU:0 threads=2 kernel_buffers=32 cache_bytes=1048576
  // kernel_instructions=4000 kernel_loops=48", and for another device only what differs:
  // "CPU:1.threads=1".
  std::string Text() const;
};

// Of a graph. A device that it names and that does not open counts as the default one: no program
// is made of its schedule. Errors are those of DeviceSet::Get for the default device.
absl::StatusOr<ScheduleTarget> ScheduleTargetOf(const ir::UOpContext& ctx, ir::UOp sink,
                                                DeviceSet& devices);
// Of a graph that names no device but the default one, as none can where devices.size() == 1.
absl::StatusOr<ScheduleTarget> OnlyScheduleTarget(DeviceSet& devices);

}  // namespace uopd::engine
