// SPDX-License-Identifier: MIT
// What all machines of a kind have in common, as the scheduler, codegen and the interpreter use it.
// What chips differ in is a field of Target or of Target::speeds.
#pragma once
#include <cstdint>

namespace uopd {

// The bytes of a cache line: of every x86-64 CPU, and of most AArch64 ones.
inline constexpr int64_t kCacheLineBytes = 64;

// The shared memory of a block of threads has 32 banks of 32-bit words (CUDA C++ Programming Guide,
// Shared Memory). Codegen takes the same for all GPUs.
inline constexpr int64_t kSharedBanks = 32, kSharedWordBytes = 4;
// The layout of a bulk copy to shared memory repeats after so many rows (PTX ISA, tensor swizzling
// modes).
inline constexpr int64_t kAtomRows = 8;

// A processor of a GPU runs so many threads at the same time: a multiprocessor of sm_80 and sm_90
// 2048 (CUDA C++ Programming Guide, Technical Specifications); a compute unit of CDNA as many.
inline constexpr int64_t kUnitThreads = 2048;
// A block of threads computes so many results next to each other: as many as a warp has threads, so
// that a warp reads one row.
inline constexpr int64_t kNeighbours = 32;

}  // namespace uopd
