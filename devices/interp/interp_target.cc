// SPDX-License-Identifier: MIT
#include "devices/interp/interp_target.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/target/matrix_instructions.h"

namespace uopd::devices::interp {

InterpShape NvidiaShape() { return {32, NvidiaMatrixInstructions(80), 48 << 10, true, true}; }

InterpShape HopperShape() {
  std::vector<MatrixInstruction> instructions = WarpgroupMatrixInstructions();
  std::ranges::reverse(
      instructions);  // those with few results in a lane: more blocks of small kernels
  for (MatrixInstruction& i : NvidiaMatrixInstructions(90)) instructions.push_back(std::move(i));
  return {32, std::move(instructions), 227 << 10, true, true, true};
}

InterpShape AmdShape() { return {64, AmdMatrixInstructions("gfx90a"), 64 << 10}; }

Target InterpTarget(const InterpShape& shape) {
  Target out;
  out.kind = "interp";
  out.arch = absl::StrCat("warp", shape.warp_lanes);
  out.toolchain = "interp-1";
  out.format = CodeFormat::kLinear;
  out.matrix_instructions = shape.matrix_instructions;
  for (const MatrixInstruction& i : shape.matrix_instructions) {
    if (i.a == DtypeNumber::TF32) out.dtypes.Add(DtypeNumber::TF32);
  }
  out.matrix_loads = shape.matrix_loads;
  out.async_copies = shape.async_copies;
  out.bulk_copies = shape.bulk_copies;
  out.blocks = true;
  out.shuffles = true;
  out.narrow_index = true;
  out.warp_lanes = shape.warp_lanes;
  out.units = 4;
  out.vector_bytes = 16;
  out.vector_lanes = 16;
  out.vector_registers = 255;
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.speeds = Speeds::OfGpu();
  out.shared_bytes = shape.shared_bytes;
  return out;
}

}  // namespace uopd::devices::interp
