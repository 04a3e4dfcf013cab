// SPDX-License-Identifier: MIT
// One compile per program, however many callers ask for it. The thread of the first caller works
// for all. The other callers wait without a thread.
//
// A flight continues while any caller waits for it. The first caller may leave early and gets its
// answer then. The work ends early only when the last caller has left. An error goes to those who
// wait at that time and is then forgotten.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "server/engine/compile/program/preparation.h"

namespace uopd::engine {

class ProgramFlights {
 public:
  // Makes the program, for as long as `for_all` allows. It is called again if callers came after
  // all others had left and the work had stopped.
  using Fly = std::function<Preparation::Answer(RequestContext& for_all)>;

  // `caller` has been started; the flight finishes it. The thread of the first caller does the work
  // in this function. For other callers the function returns at once.
  void Join(const Digest& key, const std::shared_ptr<Preparation>& caller, const Fly& fly)
      UOPD_EXCLUDES(mu_);

  size_t waiting(const Digest& key) const UOPD_EXCLUDES(mu_);  // callers that have not left

  // The flights that callers of a flow (Caller::flow) have joined, and their kernels.
  struct Progress {
    uint32_t programs = 0, kernels = 0, ready = 0;
  };
  Progress ProgressOf(std::string_view flow) const UOPD_EXCLUDES(mu_);

 private:
  struct Flight {
    std::vector<std::shared_ptr<Preparation>> callers;  // guarded by mu_; some may have left
    std::vector<int64_t> joined_ns;                     // guarded by mu_; of the callers (NowNs)
    std::atomic<int> waiting{0};
    std::atomic<bool> deserted{false};          // the work has noticed that nobody waits
    std::shared_ptr<CompileProgress> progress;  // guarded by mu_: the work's present try
  };
  void Run(const Digest& key, Flight& flight, const RequestContext& first, const Fly& fly)
      UOPD_EXCLUDES(mu_);

  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::shared_ptr<Flight>> flights_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
