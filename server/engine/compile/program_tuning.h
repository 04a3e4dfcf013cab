// SPDX-License-Identifier: MIT
// Tuning of a program after its request was answered. Tuning gets the program's kernels. Every
// kernel that tuning makes faster is swapped in (tuning_service.h).
#pragma once
#include <memory>
#include <optional>

#include "server/engine/compile/kernels.h"
#include "server/engine/compile/program.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

// The tuning task of `program`, which was assembled from `kernels`. nullopt: the request wants no
// tuning, or every kernel is tuned already. From now on the task owns `kernels`. `loader` and
// `devices` outlive the task. The task does not keep the program alive.
std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<KernelSet>& kernels,
                                       KernelLoader& loader, DeviceSet& devices);

}  // namespace uopd::engine
