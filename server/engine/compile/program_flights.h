// SPDX-License-Identifier: MIT
// One compile per program, whoever asks for it: the first one's thread works for all, the others
// wait without a thread.
//
// A flight goes on while anybody waits for it: the first caller may leave early and gets its
// answer, and the work ends only when the last one has left. An error goes to those who wait then
// and is forgotten.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "server/engine/compile/preparation.h"

namespace uopd::engine {

class ProgramFlights {
 public:
  // Makes the program for as long as the given request says; called again, later, where callers
  // came after all others had left and the work had stopped.
  using Fly = std::function<absl::StatusOr<Preparation::Made>(RequestContext& for_all)>;

  // `caller` has been started, and is finished by the flight. The first one's thread flies here;
  // others return at once.
  void Join(const Digest& key, const std::shared_ptr<Preparation>& caller, const Fly& fly)
      UOPD_EXCLUDES(mu_);

  size_t waiting(const Digest& key) const UOPD_EXCLUDES(mu_);  // callers that have not left

 private:
  struct Flight {
    std::vector<std::shared_ptr<Preparation>> callers;  // guarded by mu_; some may have left
    std::atomic<int> waiting{0};
    std::atomic<bool> deserted{false};  // the work has seen that nobody waits
  };
  void Run(const Digest& key, Flight& flight, const RequestContext& first, const Fly& fly)
      UOPD_EXCLUDES(mu_);

  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::shared_ptr<Flight>> flights_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
