// SPDX-License-Identifier: MIT
// A prepared graph: the loaded kernels in order, and what each slot and variable must be.
// Immutable; all runs of the program share it. It is the last artefact of a compile
// (compile_service.h).
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
#include "devices/api/recorded_program.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/base/device_set.h"
#include "server/engine/compile/kernel/kernel.h"
#include "server/engine/usage/program_usage.h"

namespace uopd::engine {

// Runs `kernel`. If `kernel` is null, copies buffers[1], starting at byte `from`, into buffers[0];
// or, if there is only one buffer, fills it with zeroes.
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

// The shortest time of a completed run of a program. The data of a run can make it many times
// slower (caches, denormal numbers). After a run of over 50 ms, earlier times are forgotten.
// Thread-safe.
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

// The steps of a program in the form that its device replays.
struct RecordedSteps {
  std::shared_ptr<const devices::RecordedProgram> program;
  // For each buffer of a replay: the reference that Binding resolves to it. The offsets are
  // recorded.
  std::vector<schedule::BufferRef> buffers;
  mutable std::atomic<uint32_t> replays{0};
};

// Recorded by the first run of a program for later runs. Thread-safe.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) {}  // a copy of a program has not run yet
  Recording& operator=(const Recording&) = delete;

  // Null: nothing is recorded yet.
  std::shared_ptr<const RecordedSteps> Get() const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return steps_;
  }
  void Set(std::shared_ptr<const RecordedSteps> steps) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    steps_ = std::move(steps);
  }

 private:
  mutable Mutex mu_;
  mutable std::shared_ptr<const RecordedSteps> steps_ UOPD_GUARDED_BY(mu_);
};

// True for the first caller. Thread-safe.
class OnceFlag {
 public:
  OnceFlag() = default;
  OnceFlag(const OnceFlag&) {}  // a copy of a program is another program
  OnceFlag& operator=(const OnceFlag&) = delete;

  bool First() const { return !done_.exchange(true); }

 private:
  mutable std::atomic<bool> done_{false};
};

struct Program {
  Digest digest;
  std::vector<ProgramSlot> slots;
  std::vector<schedule::Variable> variables;
  std::vector<Step> steps;
  std::vector<ProgramTemporary> temporaries;
  std::vector<ProgramArena> arenas;
  std::vector<DeviceState*> devices;  // devices of all steps and slots, each once
  int64_t temporary_bytes = 0;
  double flops = 0, bytes = 0;  // of one run
  double least_ns = 0;          // lower bound of a run's time; only kernels with known work count
  uint32_t tuned_kernels = 0;   // number of steps with a tuned kernel
  uint32_t draft_kernels = 0;   // number of steps with a draft
  // The run takes microseconds. It is cheaper on the thread that received the call than on another
  // one.
  bool quick = false;
  // The run may take over 10 ms, by an estimate for a slow core. Then RunWatch checks during the
  // run whether the run must stop.
  bool may_be_long = false;
  RunTime run_time;
  Recording recording;
  OnceFlag logged;  // its code was written to the log (debug.level)

  // Whether the next run is expected to take over 10 ms; it then gets a thread of low priority. The
  // time of earlier runs says more than the estimate, which may be twenty times too long. But with
  // variables the next run may have more work than the earlier ones.
  bool IsLong() const {
    return may_be_long && !(variables.empty() && run_time.Quickest() <= kLongRunNs);
  }
};

// Identifies a program: the graph and what it is compiled for.
struct ProgramKey {
  Digest digest;
  CompileOptions options;
  bool operator==(const ProgramKey&) const = default;

  template <class H>
  friend H AbslHashValue(H h, const ProgramKey& key) {
    const CompileOptions& options = key.options;
    return H::combine(std::move(h), key.digest, options.noopt, options.fast_math,
                      options.allow_bf16, options.allow_f16, options.allow_tf32,
                      options.reproducible, options.beam, options.ignore_beam_cache,
                      options.cache_level);
  }
};

// Holds a program whose kernels are replaced by better ones. Thread-safe.
class ProgramHandle {
 public:
  explicit ProgramHandle(std::shared_ptr<const Program> program,
                         std::shared_ptr<ProgramUse> use = std::make_shared<ProgramUse>())
      : use_(std::move(use)), program_(std::move(program)) {}

  // Where the requests for the program are counted.
  ProgramUse& use() const { return *use_; }

  std::shared_ptr<const Program> Get() const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return program_;
  }
  // Runs that have begun continue with the program that they took.
  void Swap(std::shared_ptr<const Program> program) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    program_.swap(program);
  }

 private:
  const std::shared_ptr<ProgramUse> use_;
  mutable Mutex mu_;
  std::shared_ptr<const Program> program_ UOPD_GUARDED_BY(mu_);
};

struct KernelSet;

// Assembles the program of a graph. REQUIRES: every kernel of the set is loaded. INTERNAL: the
// kernels do not fit the schedule.
absl::StatusOr<std::shared_ptr<const Program>> AssembleProgram(const Digest& digest,
                                                               const KernelSet& kernels,
                                                               DeviceSet& devices);

}  // namespace uopd::engine
