// SPDX-License-Identifier: MIT
// Values that can be computed anywhere, such as positions and random bits, become one for each
// device that needs them, so that none is written to memory on one device and read on another.
#pragma once
#include <string_view>
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

// The graph in which every such value, except constants, has users on one device. Copies of a node
// differ in their tags. The same graph if it names one device. `order` is the graph, sources first.
// REQUIRES: no MULTI.
ir::UOp SeparateDevices(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                        std::string_view default_device);

}  // namespace uopd::schedule
