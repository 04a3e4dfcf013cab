// SPDX-License-Identifier: MIT
// Scheduling: a verified tensor graph becomes an ordered list of kernels over numbered buffers.
//
// This is the entry of the scheduler. It runs after verification and before codegen;
// make_schedule.cc is the pipeline, docs/schedule.md describes its steps.
//
// A Schedule is plain data without UOps, so that it can be stored and sent: a kernel travels as the
// wire form of its graph. A kernel graph is (docs/ir.md, "Kernels"):
//
//   SINK {kernel} of  END(STORE(INDEX(PARAM {k}, index[, gate]), value), RANGE...)
//                     END(GROUP(STORE, STORE, ...), RANGE...)
//
// Invariants of a kernel graph
//   (1) PARAM {k} is the kernel's k-th buffer. It has one dimension, the number of its elements.
//       Outputs come first.
//   (2) Values are elementwise ops over LOAD(INDEX(PARAM, index[, gate])), CONST, DEFINE_VAR, CASTs
//       of ranges, REDUCE(x, RANGE {REDUCE}...), and
//       LOAD(INDEX(STAGE(x, index, gate, RANGE {REDUCE}...), index)).
//   (3) Ranges are RANGE {axis id, LOOP|REDUCE}. Their ids are dense, in nesting order.
//   (4) A LOAD whose gate is false gives 0 and reads no memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::schedule {

// A buffer of the schedule.
struct BufferRef {
  enum Kind : uint8_t { kArgument, kTemporary };
  Kind kind = kArgument;
  int64_t index = 0;  // slot of the graph, or index into Schedule::temporaries
  bool operator==(const BufferRef&) const = default;
};

// One step of the schedule. A kernel runs `graph` on `device`. A copy fills buffers[0] with bytes
// of buffers[1], which may be on another device. A clear fills buffers[0], a temporary, with
// zeroes: the next item writes it in part, and a copy takes all of it.
struct Item {
  enum Kind : uint8_t { kKernel, kCopy, kClear };
  Kind kind = kKernel;
  std::string device;
  std::string graph;               // kernels: ir::Encode of the kernel SINK
  std::vector<BufferRef> buffers;  // kernels: by PARAM slot, outputs first
  int64_t from = 0;                // copies: the first byte of buffers[1] that is copied
};

// Memory between the kernels of one schedule. Temporaries whose lifetimes do not overlap may share
// bytes of the arena of their device (plan/plan.h).
struct Temporary {
  std::string device;
  int64_t bytes = 0;
  int64_t offset = 0;  // in the arena of its device
};

// A PARAM of the tensor graph. Numbers of slots may have gaps, which are not `used`.
struct Slot {
  ir::Dtype dtype = ir::Dtype::Void;
  std::vector<int64_t> dims;  // largest value of each dimension
  int64_t bytes = 0;
  bool used = false;
  // Some kernel depends on the contents before the run, or the run may leave bytes as they were.
  bool read = false;
  bool written = false;  // some kernel or copy writes it
  std::string device;
};

struct Variable {
  std::string name;
  // Bounds. The value of a float variable is passed as the bits of a double, so its bounds are
  // those of 64-bit integers (LowerFloatVariables).
  int64_t min = 0, max = 0;
  ir::Dtype dtype = ir::Dtype::Index;
};

struct Schedule {
  std::vector<Slot> slots;          // by PARAM slot of the tensor graph
  std::vector<Variable> variables;  // in topological order of the tensor graph
  std::vector<Item> items;          // in order of execution
  std::vector<Temporary> temporaries;
  std::vector<std::pair<std::string, int64_t>> arenas;  // device, bytes

  // The schedule as bytes for the cache, and back. Decode checks every index and size, because the
  // bytes may come from a damaged file: DATA_LOSS.
  std::string Encode() const;
  static absl::StatusOr<Schedule> Decode(std::string_view bytes);
};

// What the scheduler assumes and allows for the kernels of one device.
struct KernelLimits {
  int threads = 8;                 // threads that a kernel is assumed to run on
  int units = 0;                   // processors that run blocks of threads; 0: it runs no blocks
  int max_buffers = 32;            // most buffers of a kernel; at least 4
  int64_t cache_bytes = 1 << 20;   // cache that each thread has for itself
  int64_t stage_bytes = 64 << 10;  // most bytes of one staged value; with blocks: of shared memory
  // Largest size of a kernel (limits/limit_size.cc). A larger one takes over a second to compile.
  int max_instructions = 4000;
  int max_loops = 48;  // not counting the loops over the output
  // It has blocks, and matrix instructions whose operands lie in the registers of a warp.
  bool warp_products = false;
  // What matrix instructions of the device multiply: such values are not converted in memory.
  DtypeNumberSet factors;
  // The small floats whose products the device adds up in f32 with one instruction, best first.
  std::vector<DtypeNumber> product_dtypes;
  Speeds speeds;  // for cost models
  bool operator==(const KernelLimits&) const = default;

  static KernelLimits Of(const Target& target);
};

struct Options {
  std::string default_device = "CPU:0";  // device of PARAMs that name none
  // Cost of writing one element to memory, in operations (fusion.h). Low values give more and
  // smaller kernels.
  double realise_cost = 32;
  double launch_cost = 4096;  // cost of an empty kernel, in operations
  // Most bytes of one staged value (staging.h), if the device allows as many. 0: nothing is staged.
  int64_t stage_bytes = 64 << 10;
  KernelLimits limits;  // of every device that limits_of does not list
  std::map<std::string, KernelLimits, std::less<>> limits_of;  // by the device's name in the graph
  // An allreduce of more elements than this, over more than two devices, is a ring (AllReduce).
  int64_t ring_threshold = 256'000;
  // The small floats (ir::IsSmallFloat) that operands of f32 products may be rounded to
  // (round_products.h). Empty: nothing is rounded.
  DtypeNumberSet allowed_products;

  const KernelLimits& LimitsOf(std::string_view device) const {
    const auto found = limits_of.find(device);
    return found == limits_of.end() ? limits : found->second;
  }
  // Of the device that u is computed on: that of the PARAM or COPY at the end of the chain of first
  // sources.
  const KernelLimits& LimitsFor(ir::UOp u) const;
};

// Part of the environment key of cached schedules. Raise it with every change of what MakeSchedule
// returns.
inline constexpr int kScheduleVersion = 26;

// REQUIRES: sink passed ir::Verify(..., Level::kTensor). INVALID_ARGUMENT if values on different
// devices meet without a COPY or MULTI; RESOURCE_EXHAUSTED: see forward_states.h; CANCELLED or
// DEADLINE_EXCEEDED if ctx was interrupted.
absl::StatusOr<Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink, const Options& options);

}  // namespace uopd::schedule
