// SPDX-License-Identifier: MIT
// What the schedule of a graph depends on besides the graph: the default device, the limits of the
// devices that the graph names, and the precision that the request allows.
//
// It has the limits of the default device, and of each other named device whose limits differ. So a
// graph has the same schedule on all machines whose relevant devices are alike. The number of
// devices, and devices that the graph does not use, make no difference.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

struct ScheduleTarget {
  schedule::Options options;
  // The limits by device name, each device once, ascending. A graph may spell the names otherwise.
  std::vector<std::pair<std::string, schedule::KernelLimits>> others;

  // The text for the environment key: "default=CPU:0 threads=2 kernel_buffers=32
  // cache_bytes=1048576 kernel_instructions=4000 kernel_loops=48 factors=0 stage_bytes=65536
  // units=0". For another device only the differing limits are added: "CPU:1.threads=1". Devices
  // with products of warps have "warp_products=1". If the request allows rounded products, also
  // "allow=bf16,f16 products=bf16": what it allows, and what the device has.
  std::string Text() const;
};

// The target of a graph. A device that the graph names but that does not open counts as the default
// device, because no program is made from that schedule. Errors: those of DeviceSet::Get for the
// default device.
absl::StatusOr<ScheduleTarget> ScheduleTargetOf(const ir::UOpContext& ctx, ir::UOp sink,
                                                DeviceSet& devices,
                                                const CompileOptions& options = {});
// The target of a graph that names only the default device. No graph names another if
// devices.size() == 1.
absl::StatusOr<ScheduleTarget> OnlyScheduleTarget(DeviceSet& devices,
                                                  const CompileOptions& options = {});

}  // namespace uopd::engine
