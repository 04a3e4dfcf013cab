// SPDX-License-Identifier: MIT
#include "cache/base/admin.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace uopd::cache {

const char* Name(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kRecovered:
      return "recovered";
    case State::kReadOnly:
      return "read_only";
    case State::kMemory:
      return "memory";
  }
  UOPD_CHECK(false);
}

void SortAndTrim(std::vector<EntryInfo>& entries, int64_t limit) {
  std::sort(entries.begin(), entries.end(), [](const EntryInfo& a, const EntryInfo& b) {
    return std::pair(-a.last_used_us, a.address) < std::pair(-b.last_used_us, b.address);
  });
  if (static_cast<int64_t>(entries.size()) > limit) entries.resize(static_cast<size_t>(limit));
}

}  // namespace uopd::cache
