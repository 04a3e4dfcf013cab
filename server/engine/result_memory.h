// SPDX-License-Identifier: MIT
// The results of a session's latest requests by request id, so that a repeated request is answered and not run again.
//
// Bounded in number and bytes; the oldest go first. Not thread-safe: the session's strand orders its use.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/status.h"

namespace uopd::engine {

struct ExecuteResult {
  std::vector<std::string> data;  // of the arguments with return_data, in order of slots
};

class ResultMemory {
 public:
  static constexpr size_t kMaxResults = 64;
  static constexpr size_t kMaxBytes = 4 << 20;  // a result larger than that is not remembered

  // Null: not remembered. INVALID_ARGUMENT: the id was used for another program.
  absl::StatusOr<std::shared_ptr<const ExecuteResult>> Find(uint64_t request_id,
                                                            const Digest& program) const;
  void Remember(uint64_t request_id, const Digest& program, const ExecuteResult& result);
  size_t size() const { return results_.size(); }

 private:
  struct Remembered {
    Digest program;
    std::shared_ptr<const ExecuteResult> result;
    size_t bytes = 0;
  };
  absl::flat_hash_map<uint64_t, Remembered> results_;
  std::deque<uint64_t> order_;  // oldest first
  size_t bytes_ = 0;
};

}  // namespace uopd::engine
