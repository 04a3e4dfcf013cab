// SPDX-License-Identifier: MIT
// What all machines of a kind have in common, as the scheduler, codegen and the interpreter use it.
// What chips differ in is a field of Target or of Target::speeds.
#pragma once
#include <cstdint>

namespace uopd {

// Of the caches of all CPUs that uopd compiles for: x86-64, and most of AArch64.
inline constexpr int64_t kCacheLineBytes = 64;

// Shared memory of a block of threads: 32 banks of 32-bit words (CUDA C++ Programming Guide, Shared
// Memory; the same of CDNA and RDNA).
inline constexpr int64_t kSharedBanks = 32, kSharedWordBytes = 4;
// Rows after which the layout of a bulk copy to shared memory repeats (PTX ISA, tensor swizzling
// modes).
inline constexpr int64_t kAtomRows = 8;

// Threads that a processor of a GPU (a multiprocessor, a compute unit) runs at the same time,
// about: 2048 of NVIDIA's data centre chips and of CDNA.
inline constexpr int64_t kUnitThreads = 2048;
// Results that a block of threads computes next to each other: as many as a warp has threads, so
// that its stores are whole lines.
inline constexpr int64_t kNeighbours = 32;

}  // namespace uopd
