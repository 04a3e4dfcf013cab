// SPDX-License-Identifier: MIT
// The targets that INTERP stands for: GPUs of several makes, as facts. Pure functions.
#pragma once
#include <vector>

#include "core/base/target/target.h"

namespace uopd::devices::interp {

// What differs between the GPUs that the device can stand for.
struct InterpShape {
  int warp_lanes = 32;  // a power of two
  std::vector<MatrixInstruction> matrix_instructions;
  int64_t shared_bytes = 48 << 10;  // of one block
  bool matrix_loads = false;        // Target::matrix_loads
  bool async_copies = false;        // Target::async_copies
  bool bulk_copies = false;         // Target::bulk_copies
};

// Warps of 32 lanes and the matrix instructions of sm_80.
InterpShape NvidiaShape();
// Warps of 32 lanes and the matrix instructions of sm_90a, those of groups of warps first.
InterpShape HopperShape();
// Warps of 64 lanes and the matrix instructions of gfx90a.
InterpShape AmdShape();

Target InterpTarget(const InterpShape& shape);

}  // namespace uopd::devices::interp
