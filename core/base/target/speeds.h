// SPDX-License-Identifier: MIT
// Speeds: throughputs and latencies of a machine, for the cost models of heuristics.
//
// A processor is a core of a CPU, an SM or a compute unit of a GPU. A cycle is one of its clock.
// Bytes and products of a cycle are those of one processor while all of them work. A product is a
// multiply-add.
//
// Sources: CPUs have the assumed values below, whatever devices/cpu/measure_speeds.h finds for
// display; speeds.cc has those of GPUs. A number in a cost model itself is a choice, not a fact.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace uopd {

// The values here are assumed: a core of a busy server, whose threads take long to wake up.
struct Speeds {
  // What a processor computes in a cycle.
  double vector_products = 2;     // CPU: products of whole vectors that begin, and loads of vectors
  double products = 0;            // GPU: of f32
  double warp_products = 0;       // GPU: of 16 bits, by matrix instructions of a warp
  double warpgroup_products = 0;  // GPU: of 16 bits, by matrix instructions of a warpgroup

  // What a processor gets in a cycle, in bytes.
  double shared_bytes = 0;  // GPU: from shared memory
  double second_level_bytes = 32;
  double memory_bytes = 6;

  // Latencies.
  double product_cycles = 4;  // until a product may use the result of another one
  double barrier_cycles = 0;  // GPU: what a barrier of a block costs in a loop
  double launch_cycles = 0;   // GPU: a kernel, and waiting for the one before it
  double thread_ns = 4096;    // CPU: until another thread has begun its part of a kernel

  double clock_ghz = 0;  // 0: unknown

  // Those of a chip as GpuTarget (gpu_targets.h) names it; "": of one that nobody knows by name.
  static Speeds OfGpu(std::string_view arch = "");

  // The operations (codegen/estimate.h) for which another thread of a CPU is worth its wake-up, at
  // 32 in a nanosecond: about what AVX-512 does to f32 from the first-level cache.
  double thread_work() const { return 32 * thread_ns; }

  struct Field {
    std::string_view name, unit;
    double Speeds::* value;
  };
  // Every field, in the order of this file.
  static std::span<const Field> Fields();

  bool operator==(const Speeds&) const = default;
  // "vector_products=2 second_level_bytes=32 ...": the fields that are not 0.
  std::string Text() const;
  // Of such a text; fields that it does not have are 0. nullopt: not such a text.
  static std::optional<Speeds> FromText(std::string_view text);
};

}  // namespace uopd
