// SPDX-License-Identifier: MIT
// Tuning of a program after its request was answered. Tuning gets the program's kernels. Every
// kernel that tuning makes faster is swapped in (tuning_service.h).
#pragma once
#include <memory>
#include <optional>

#include "server/engine/compile/program/program_update.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

// The tuning task of `program`, whose kernels `update` replaces. nullopt: the request wants no
// tuning, or every kernel is tuned already. `loader` outlives the task. The task does not keep the
// program alive.
std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<ProgramUpdate>& update,
                                       KernelLoader& loader);

}  // namespace uopd::engine
