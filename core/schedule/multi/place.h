// SPDX-License-Identifier: MIT
// Duplicates values that need no device, such as positions and random bits, for every device that
// uses them. Otherwise one could be written to memory on one device and read on another. Runs after
// ResolveMulti (multi_device.h) and before Prepare.
#pragma once
#include <string_view>
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

// The graph in which all users of such a value are on one device; constants and variables are not
// duplicated. Duplicates of a node differ in their tags. The same graph if it names one device.
// REQUIRES: `order` is a graph without MULTI, sources first.
ir::UOp SeparateDevices(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                        std::string_view default_device);

}  // namespace uopd::schedule
