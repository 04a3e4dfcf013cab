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
  // Called at the start of each of these threads, except the calling one. Null: not called.
  std::function<void()> on_thread;
  std::function<bool()> go_on;  // polled by the calling thread; false: no further list is begun
};

// The results are in the order of the lists. If go_on returned false, lists that were not begun
// have an error.
std::vector<absl::StatusOr<Candidate>> LowerLists(std::span<const Opts* const> lists,
                                                  const LowerListsHow& how);

}  // namespace uopd::search
