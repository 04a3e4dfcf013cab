// SPDX-License-Identifier: MIT
// A prepared graph: loaded kernels in order, and what each slot and variable must be. Immutable,
// shared by all who run it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/schedule/schedule.h"
#include "server/engine/base/device_set.h"
#include "server/engine/compile/kernel_record.h"
#include "server/engine/compile/pipeline.h"

namespace uopd::engine {

// A kernel on its device. Programs with the same kernel share it.
struct Kernel {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Executable> executable;
  std::string name;
  std::vector<codegen::BufferUse> buffers;
  std::vector<std::string> variables;
  codegen::LaunchGeometry launch;
  double flops = 0, bytes = 0, estimate_ns = 0;  // codegen::LoweredKernel
  bool polls = false;
  bool tuned = false;  // with opts that tuning found
};

// Runs `kernel`, or fills buffers[0] from byte `from` on of buffers[1] when it is null.
struct Step {
  std::shared_ptr<const Kernel> kernel;
  DeviceState* device = nullptr;
  absl::InlinedVector<schedule::BufferRef, 4> buffers;
  absl::InlinedVector<int, 2> variables;  // of the program, in the kernel's order
  int64_t from = 0;
};

struct ProgramSlot {
  schedule::Slot info;
  DeviceState* device = nullptr;
};

struct ProgramTemporary {
  int arena = 0;
  int64_t offset = 0, bytes = 0;
};

struct ProgramArena {
  DeviceState* device = nullptr;
  int64_t bytes = 0;
};

inline constexpr int64_t kLongRunNs = 10'000'000;

// What the quickest run of a program took, of those that came to their end. The data of a run can
// make it many times slower (caches, denormal numbers): a run of over 50 ms makes earlier runs
// forgotten. Thread-safe.
class RunTime {
 public:
  RunTime() = default;
  RunTime(const RunTime&) {}  // a copy of a program has not run yet
  RunTime& operator=(const RunTime&) = delete;

  void Add(int64_t ns) const;
  int64_t Quickest() const { return quickest_ns_.load(std::memory_order_relaxed); }

 private:
  mutable std::atomic<int64_t> quickest_ns_{INT64_MAX};  // programs are shared as const
};

struct Program {
  Digest digest;
  std::vector<ProgramSlot> slots;
  std::vector<schedule::Variable> variables;
  std::vector<Step> steps;
  std::vector<ProgramTemporary> temporaries;
  std::vector<ProgramArena> arenas;
  std::vector<DeviceState*> devices;  // of all steps and slots, each once
  int64_t temporary_bytes = 0;
  double flops = 0, bytes = 0;  // of one run
  double least_ns = 0;          // no run can take less; of kernels whose work is known
  uint32_t tuned_kernels = 0;   // steps
  // Done in microseconds: cheaper to run on the thread that received the call than to hand over.
  bool quick = false;
  // May take over 10 ms, by an estimate for a slow core: somebody looks whether it is to stop while
  // it runs.
  bool may_be_long = false;
  RunTime run_time;

  // Whether the next run is expected to take over 10 ms, and so gets a thread of low priority. What
  // a run took says more than the estimate, which may be twenty times too long; but with variables
  // the next run may have more work.
  bool IsLong() const {
    return may_be_long && !(variables.empty() && run_time.Quickest() <= kLongRunNs);
  }
};

// Which program: the graph and what it is compiled for.
struct ProgramKey {
  Digest digest;
  CompileOptions options;
  bool operator==(const ProgramKey&) const = default;

  template <class H>
  friend H AbslHashValue(H h, const ProgramKey& key) {
    const CompileOptions& options = key.options;
    return H::combine(std::move(h), key.digest, options.noopt, options.fast_math, options.beam,
                      options.ignore_beam_cache, options.cache_level);
  }
};

// Where a program stays while its kernels are replaced by better ones. Thread-safe.
class ProgramHandle {
 public:
  explicit ProgramHandle(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> Get() const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return program_;
  }
  // Runs that have begun finish with what they took.
  void Swap(std::shared_ptr<const Program> program) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    program_.swap(program);
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const Program> program_ UOPD_GUARDED_BY(mu_);
};

// How large a buffer of the schedule is.
int64_t BufferBytes(const schedule::Schedule& schedule, const schedule::BufferRef& ref);

// Puts a program together from a schedule and the kernels of its items (null for copies). INTERNAL
// when they do not fit.
absl::StatusOr<std::shared_ptr<const Program>> AssembleProgram(
    const Digest& digest, const schedule::Schedule& schedule, DeviceSet& devices,
    const std::vector<std::shared_ptr<const Kernel>>& kernels);

}  // namespace uopd::engine
