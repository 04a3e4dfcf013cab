// SPDX-License-Identifier: MIT
#include "core/search/lower_lists.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace uopd::search {

std::vector<absl::StatusOr<Candidate>> LowerLists(std::span<const Opts* const> lists,
                                                  const LowerListsHow& how) {
  std::vector<absl::StatusOr<Candidate>> out(lists.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  const auto lower_one = [&] {
    const size_t i = next.fetch_add(1);
    if (i >= lists.size() || stopped) return false;
    out[i] = how.lower(*lists[i]);
    return true;
  };
  std::vector<std::thread> threads;
  const size_t count = std::min(lists.size(), static_cast<size_t>(std::max(1, how.threads)));
  for (size_t i = 1; i < count; ++i) {
    threads.emplace_back([&] {
      if (how.on_thread) how.on_thread();
      while (lower_one()) {
      }
    });
  }
  bool go_on = how.go_on();
  while (go_on && lower_one()) go_on = how.go_on();
  if (!go_on) stopped = true;
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace uopd::search
