// SPDX-License-Identifier: MIT
// Runs whole graphs as schedules for a device with blocks, on the interpreter of kernels for GPUs,
// and by the tensor interpreter, which is the reference.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "core/schedule/schedule.h"
#include "tests/support/kernel_interpreter.h"
#include "tests/support/model_graphs.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::test {

struct BlocksRun {
  std::vector<int64_t> blocks;  // of each kernel's launch
  std::vector<HostArray> got, want;
};

// Runs one kernel over its buffers.
using RunBlocks =
    std::function<absl::Status(ir::UOpContext&, const codegen::LoweredKernel&, tests::Memory&,
                               const std::map<std::string, int64_t>&)>;

// `build` adds a graph's outputs. Its slots hold small whole numbers, whose sums are exact. The
// error is that of the step that failed; the interpreter of kernels reports races and accesses
// outside of arrays. `run` runs the kernels instead of the interpreter.
absl::StatusOr<BlocksRun> RunForBlocks(
    const std::function<void(ir::UOpContext&, GraphBuilder&)>& build, const Target& target,
    const RunBlocks& run = nullptr);

// The first result that differs by more than `tolerance` times the wanted value; empty: there is
// none.
std::string Difference(const BlocksRun& run, double tolerance = 0);

}  // namespace uopd::test
