// SPDX-License-Identifier: MIT
// Fills the report of a run from the times of its kernels: the kernels beside their roofs, and the
// lines of DEBUG=1 and DEBUG=2. Stateless.
#pragma once
#include <cstdint>
#include <span>

#include "server/engine/base/run_report.h"
#include "server/engine/compile/program/program.h"

namespace uopd::engine {

// `durations_ns` has one entry for every step of the program. `steps_ns` is the time from the first
// step to the end of the last one. Uses report.roofs.
void ReportRun(const Program& program, std::span<const int64_t> durations_ns, int64_t steps_ns,
               RunReport& report);

// One line without its end: the name, time, GFLOPS, GB/s and share of the roof of one launch.
std::string KernelLine(const KernelReport& kernel, size_t step);

}  // namespace uopd::engine
