// SPDX-License-Identifier: MIT
// Target: the facts about a device that decide code. Its driver finds them when it opens the
// device.
//
// Plain data. Scheduler, codegen, search, renderers and cache keys read this struct and never ask
// which driver filled it. The fields that decide code are part of Key(): all but the clock of a
// CPU, and speeds that follow from the name of a chip. Facts that decide no code (the device's
// name, the size of its memory) are in devices::DeviceInfo.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/target/dtype_number.h"
#include "core/base/target/fragment.h"
#include "core/base/target/speeds.h"

namespace uopd {

// The format of the code of a kernel. The numbers are stored in caches: never reuse one.
enum class CodeFormat : uint8_t {
  kLlvmIr = 1,  // LLVM IR text
  kObject = 2,  // what the device's Compiler returned: ELF object, cubin, code object, ...
  kC = 3,       // C11 text
  kPtx = 4,
  kOpenClC = 5,
  kCudaC = 6,
  kHipC = 7,
  kMetal = 8,
  kLinear = 9,     // text of a linear kernel (docs/ir_linear.md)
  kAmdgpuIr = 10,  // LLVM IR text for AMDGPU
};

// A data cache.
struct CacheLevel {
  int64_t bytes = 0;
  int shared_by = 1;  // number of hardware threads that share it
  bool operator==(const CacheLevel&) const = default;
};

// An instruction that adds the product of an m x k and a k x n matrix to an m x n matrix. A dot
// product instruction of vectors has m = 1.
struct MatrixInstruction {
  std::string name;  // as renderers know it: "avx512_bf16"
  int m = 0, n = 0, k = 0;
  DtypeNumber a = DtypeNumber::Void, b = DtypeNumber::Void, sum = DtypeNumber::Void;
  // Of instructions whose operands lie in the registers of a warp: where. Else empty. If only the
  // sum has a place, the instruction reads its operands from shared memory (GROUP_MMA in
  // docs/ir_linear.md); the lanes of the sum are those of several warps.
  Fragment a_place, b_place, sum_place;
  bool of_warp() const { return !sum_place.lane.empty(); }
  bool in_shared() const { return of_warp() && a_place.lane.empty(); }
  bool operator==(const MatrixInstruction&) const = default;
};

struct Target {
  // Which code the device runs.
  std::string kind = "cpu";  // family of devices
  std::string arch;          // "x86_64", "sm_90", ...
  std::string features;   // of the architecture, as its toolchain writes them; nobody parses them
  std::string toolchain;  // version, flags and everything else that decides compiled bytes

  // What the text of its kernels can express.
  CodeFormat format = CodeFormat::kLlvmIr;  // that its compiler takes; selects the renderer
  int vector_lanes = 64;                    // most lanes of a vector value; a power of two
  bool has_fma = true;                      // a multiply-add is one instruction
  bool has_scaling = false;  // x * 2^n of f32 is one instruction, for every n, rounded once
  bool has_exp2 = false;     // EXP2 of f32 is one instruction, within 2 ulp
  bool has_max = false;      // MAX of f32 is one instruction, NaN if an operand is NaN
  // The dtypes that its kernels may load, store and convert. Floats under 32 bits are computed in
  // f32; bf16, fp8 and tf32 are stored as bits. With bf16 or tf32, f32 is converted to it by an
  // instruction; every target stores and loads both. A kernel that needs another dtype is
  // UNIMPLEMENTED.
  DtypeNumberSet dtypes{DtypeNumber::Bool, DtypeNumber::I8,  DtypeNumber::U8,  DtypeNumber::I16,
                        DtypeNumber::U16,  DtypeNumber::I32, DtypeNumber::U32, DtypeNumber::I64,
                        DtypeNumber::U64,  DtypeNumber::F16, DtypeNumber::F32, DtypeNumber::F64};
  std::vector<MatrixInstruction> matrix_instructions;  // best first

  // One hardware thread: a CPU's, or a lane of a GPU's warp.
  int vector_bytes = 32;  // width of a vector register; with blocks: of a thread's widest access
  int vector_registers = 16;          // with blocks: 32-bit registers of a thread
  int64_t private_bytes = 512 << 10;  // limit of all private arrays of a kernel together
  // Data caches, nearest first.
  std::vector<CacheLevel> caches = {{32 << 10, 1}, {1 << 20, 1}};

  // All hardware threads together.
  int threads = 1;      // instances of a kernel that run at the same time, on a CPU
  int warp_lanes = 1;   // threads that execute one instruction together
  int max_buffers = 0;  // limit for one kernel, at least 4; 0: no limit
  // A launch is a grid of blocks of threads. The threads of a block share memory and wait for each
  // other at barriers. False: a launch is a row of threads, as on a CPU.
  bool blocks = false;
  bool shuffles = false;      // threads of a warp read each other's values (SHUFFLE)
  bool matrix_loads = false;  // a warp loads matrices from shared memory (MATRIX_LOAD)
  bool async_copies = false;  // to shared memory, 16 bytes at a time (ASYNC_COPY)
  bool bulk_copies = false;   // of boxes of tensors to shared memory (BULK_COPY)
  bool narrow_index = false;  // 32-bit index arithmetic is faster than 64-bit
  int units = 1;              // processors that run blocks: SMs, compute units
  int64_t max_grid[3] = {1, 1, 1};
  int64_t max_block[3] = {1, 1, 1};
  int64_t max_block_threads = 1;  // product of a block's dimensions
  int64_t shared_bytes = 0;       // on-chip memory of one block
  Speeds speeds;                  // for cost models

  // One thread's share of the second-level cache, or of the only cache if there is one level.
  int64_t OwnCacheBytes() const;
  // The fields as text. Two keys are equal exactly if no field that decides code differs.
  std::string Key() const;
};

}  // namespace uopd
