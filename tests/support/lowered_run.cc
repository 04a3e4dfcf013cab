// SPDX-License-Identifier: MIT
#include "tests/support/lowered_run.h"

#include <limits>

#include "core/interp/interpreter.h"

namespace uopd::tests {

absl::Status RunLowered(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                        const Target& target, Memory& memory,
                        const std::map<std::string, int64_t>& variables) {
  UOPD_ASSIGN(
      const interp::Program program,
      interp::Program::Make(ctx, kernel.linear, kernel.variables, target.matrix_instructions));
  std::vector<std::span<std::byte>> buffers;
  for (auto& b : memory) buffers.push_back(std::as_writable_bytes(std::span(b)));
  std::vector<int64_t> values;
  for (const std::string& v : kernel.variables) values.push_back(variables.at(v));
  interp::LaunchArguments arguments;
  for (int d = 0; d < 3; ++d) {
    arguments.grid[d] = kernel.launch.grid[d].Evaluate(values);
    arguments.block[d] = kernel.launch.block[d].Evaluate(values);
  }
  arguments.warp_lanes = target.warp_lanes;
  arguments.buffers = buffers;
  arguments.variables = values;
  return interp::Run(program, arguments);
}

Target BlockTarget(bool shuffles) {
  Target out;
  out.kind = "interp";
  out.blocks = true;
  out.shuffles = shuffles;
  out.narrow_index = true;
  out.matrix_loads = out.async_copies = true;
  out.warp_lanes = 32;
  out.units = 4;
  out.vector_bytes = 16;
  out.vector_lanes = 16;
  out.vector_registers = 255;
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.speeds = Speeds::OfGpu();
  out.shared_bytes = 48 << 10;
  return out;
}

}  // namespace uopd::tests
