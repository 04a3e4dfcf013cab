// SPDX-License-Identifier: MIT
// Makes the first compile of a daemon as quick as the later ones.
//
// The first job of a worker process waits for the process, for its device, and for the pages of the
// compiler's code; the first kernel of the daemon waits for its rules. A kernel that nobody uses is
// compiled when the daemon starts, so that no request waits for these.
#pragma once
#include "core/base/status.h"
#include "devices/api/device.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

// At most this many workers are made ready. The others are forked when a job needs them.
inline constexpr int kMostWarmWorkers = 4;

// The text of a small product of matrices, of the tier that requests get first.
absl::StatusOr<KernelSource> WarmUpKernel(const GraphCompiler& graph_compiler,
                                          const devices::Device& device, bool draft);

}  // namespace uopd::engine
