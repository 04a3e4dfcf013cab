// SPDX-License-Identifier: MIT
// LowerLists: the candidates of many lists of opts, made by several threads.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/search/candidate.h"

namespace uopd::search {

struct LowerListsHow {
  std::function<absl::StatusOr<Candidate>(const Opts&)> lower;  // called by all threads
  int threads = 1;                                              // the calling one included
  std::function<void()>
      on_thread;  // called first by each of them but the calling one; null: not called
  std::function<bool()> go_on;  // polled by the calling thread; false: no further list is begun
};

// In the order of the lists. Not complete (other lists have some error) if go_on said no.
std::vector<absl::StatusOr<Candidate>> LowerLists(std::span<const Opts* const> lists,
                                                  const LowerListsHow& how);

}  // namespace uopd::search
