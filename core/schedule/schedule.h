// SPDX-License-Identifier: MIT
// Scheduling: a verified tensor graph becomes an ordered list of kernels over numbered buffers.
//
// The result is plain data without UOps, so that it can be stored and sent: kernels travel as the
// wire form of their graphs. A kernel graph is (docs/ir.md, "Kernels"):
//
//   SINK {kernel} of  END(STORE(INDEX(PARAM {k}, index[, gate]), value), RANGE...)
//                     END(GROUP(STORE, STORE, ...), RANGE...)
//
// PARAM {k} is the kernel's k-th buffer, one-dimensional, its shape the number of elements; outputs
// come first. Values are elementwise ops over LOAD(INDEX(PARAM, index[, gate])), CONST, DEFINE_VAR, CASTs of ranges,
// REDUCE(x, RANGE {REDUCE}...), and LOAD(INDEX(STAGE(x, index, gate, RANGE {REDUCE}...), index)).
// Ranges are RANGE {axis id, LOOP|REDUCE}, ids dense in nesting order. A LOAD whose gate is false
// gives 0 and touches no memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/base/target.h"
#include "core/ir/context.h"

namespace uopd::schedule {

struct BufferRef {
  enum Kind : uint8_t { kArgument, kTemporary };
  Kind kind = kArgument;
  int64_t index = 0;  // slot of the graph, or index into Schedule::temporaries
  bool operator==(const BufferRef&) const = default;
};

// One step. A kernel runs `graph` on `device`; a copy fills buffers[0] from buffers[1], perhaps
// between devices, from a byte of it on.
struct Item {
  enum Kind : uint8_t { kKernel, kCopy };
  Kind kind = kKernel;
  std::string device;
  std::string graph;               // kernels: ir::Encode of the kernel SINK
  std::vector<BufferRef> buffers;  // kernels: by PARAM slot, outputs first
  int64_t from = 0;                // copies
};

// Intermediate memory, planned: temporaries whose lives do not overlap share bytes of their
// device's arena.
struct Temporary {
  std::string device;
  int64_t bytes = 0;
  int64_t offset = 0;  // in the arena of its device
};

struct Slot {
  ir::Dtype dtype = ir::Dtype::Void;
  std::vector<int64_t> dims;  // largest value of each dimension
  int64_t bytes = 0;
  bool used = false, read = false, written = false;
  std::string device;
};

struct Variable {
  std::string name;
  int64_t min = 0, max = 0;  // of floats, whose values are the bits of a double: all of 64 bits
  ir::Dtype dtype = ir::Dtype::Index;
};

struct Schedule {
  std::vector<Slot> slots;          // by PARAM slot of the tensor graph
  std::vector<Variable> variables;  // in topological order of the tensor graph
  std::vector<Item> items;          // in order of execution
  std::vector<Temporary> temporaries;
  std::vector<std::pair<std::string, int64_t>> arenas;  // device, bytes

  // Bytes for the cache and back. Decoding checks every index and size: the bytes may come from a
  // damaged file.
  std::string Encode() const;
  static absl::StatusOr<Schedule> Decode(std::string_view bytes);
};

// What a kernel of a device may be.
struct KernelLimits {
  int threads = 8;                // that it is taken to have
  int max_buffers = 32;           // that it may take; at least 4
  int64_t cache_bytes = 1 << 20;  // that a thread has to itself
  // What is larger takes over a second to compile (kernel_cost.h): instructions, and loops beside
  // those over its output.
  int max_instructions = 4000;
  int max_loops = 48;
  bool operator==(const KernelLimits&) const = default;

  static KernelLimits Of(const Target& target);
};

struct Options {
  std::string default_device = "CPU:0";  // for PARAMs that name none
  // Operations per element that cost as much as storing and loading it: low values make more and
  // smaller kernels.
  double realise_cost = 32;
  double launch_cost = 4096;  // of a kernel, in operations
  // Memory that a value may have inside of a kernel (staging.h); 0: none does.
  int64_t stage_bytes = 64 << 10;
  KernelLimits limits;  // of all devices but these, which go by their name in the graph:
  std::map<std::string, KernelLimits, std::less<>> limits_of;
  // Sums over more than two devices of more elements than this go around in a ring (allreduce.h).
  int64_t ring_threshold = 256'000;

  const KernelLimits& LimitsOf(std::string_view device) const {
    const auto found = limits_of.find(device);
    return found == limits_of.end() ? limits : found->second;
  }
};

// Version of what MakeSchedule does; part of the environment key of cached schedules. Raise it with
// every change of output.
inline constexpr int kScheduleVersion = 9;

// REQUIRES: sink passed ir::Verify(..., Stage::kTensor). UNIMPLEMENTED names what cannot be
// scheduled yet.
absl::StatusOr<Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink, const Options& options);

}  // namespace uopd::schedule
