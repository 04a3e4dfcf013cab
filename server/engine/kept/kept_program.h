// SPDX-License-Identifier: MIT
// KeptProgram: a program divided into one that computes what depends on stable slots alone, and one
// that does the rest (core/schedule/kept/kept.h).
//
// It is made in the background, while the undivided program serves the calls. All sessions that run
// the same graph with the same slots stable share it; what it computes, they do not share
// (kept_runs.h).
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/telemetry/metrics.h"
#include "server/engine/compile/compile_service.h"

namespace uopd::engine {

struct KeptProgram {
  enum State : uint8_t { kPreparing, kReady, kRefused };

  // Set before the state is kReady, and not changed after that.
  std::shared_ptr<ProgramHandle> prologue, main;
  DeviceState* device = nullptr;
  size_t first_slot = 0;            // of the kept values
  std::vector<int64_t> slot_bytes;  // of each kept value
  int64_t bytes = 0;
  std::atomic<State> state{kPreparing};

  // It is ready, and its device is lost. The device may have been opened again since; the divided
  // program must then be made again.
  bool IsLost() const { return state.load() == kReady && !device->device().status().ok(); }
};

// Thread-safe.
class KeptPrograms {
 public:
  // `compile` and `devices` outlive this object and everything that Get began.
  KeptPrograms(CompileService& compile, DeviceSet& devices) : compile_(compile), devices_(devices) {
    for (const char* outcome : {"used", "made", "shared", "refused", "slower", "none"})
      metrics::KeptRuns({outcome});  // 0 from the start
  }

  // The divided program, which perhaps only begins to be prepared. It is refused if it adds up in
  // another order than the undivided one. `max_bytes`: of the kept values.
  std::shared_ptr<KeptProgram> Get(const Caller& caller, const ProgramKey& key,
                                   std::shared_ptr<const Program> undivided,
                                   const std::vector<bool>& stable, int64_t max_bytes)
      UOPD_EXCLUDES(mu_);

 private:
  using Key = std::tuple<ProgramKey, std::vector<bool>, int64_t>;

  CompileService& compile_;
  DeviceSet& devices_;
  Mutex mu_;
  absl::flat_hash_map<Key, std::weak_ptr<KeptProgram>> known_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
