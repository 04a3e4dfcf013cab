// SPDX-License-Identifier: MIT
// The results of a session's latest requests by request id. A repeated request is answered from
// here and not run again.
//
// An id is known far longer than its data. The data of the latest results are kept up to a number
// and a size. Of older results only the places of the data are kept, so that the data can be read
// again as long as those buffers have not changed. A request that was ended in the middle is known
// as lost. Bounded; the oldest are dropped first. Not thread-safe: the session's strand orders the
// calls.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/status.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

struct ExecuteResult {
  std::vector<std::string> data;  // of the arguments with return_data, in order of slots
};

// Where one piece of a result lies: its buffer (0: in none) and the buffer's version after the run.
struct ResultSource {
  uint64_t handle = 0, version = 0, bytes = 0;
};

class ResultMemory {
 public:
  static constexpr size_t kMaxIds = 1024;
  static constexpr size_t kMaxBytes = 4 << 20;  // bytes of data; a larger result is not kept
  static constexpr int64_t kPartOfLimit = 16;   // of the quota's limit that data take at most
  static constexpr size_t kMaxSources = 16;     // a result of more pieces is not read again

  // What is kept is charged to the quota. The quota outlives this object.
  explicit ResultMemory(Quota& quota) : quota_(quota) {}

  struct Known {
    Digest program;
    absl::Status lost;                                  // not OK: the answer to every repetition
    std::shared_ptr<const ExecuteResult> maybe_result;  // null: no longer kept, see `sources`
    std::vector<ResultSource> sources;                  // of all pieces; or empty
    uint64_t bytes = 0;                                 // of the result
    Charge charge;                                      // for the data that are kept
    Charge known;                                       // for everything else
  };

  // Null: the id is not known. INVALID_ARGUMENT: the id was used for another program. The pointer
  // is valid until the next call that changes something.
  absl::StatusOr<const Known*> Find(uint64_t request_id, const Digest& program) const;
  // Whether an answer to the id is known: its result, or that it is lost.
  bool Knows(uint64_t request_id) const { return known_.contains(request_id); }
  void Remember(uint64_t request_id, const Digest& program, const ExecuteResult& result,
                std::vector<ResultSource> sources);
  void RememberLoss(uint64_t request_id, const Digest& program, absl::Status lost);
  size_t size() const { return known_.size(); }

 private:
  size_t most_bytes() const;
  Known* Add(uint64_t request_id, const Digest& program);
  void DropData(uint64_t request_id);

  Quota& quota_;
  absl::flat_hash_map<uint64_t, Known> known_;
  std::deque<uint64_t> ids_, with_data_;  // oldest first
  size_t bytes_ = 0;                      // bytes of the data that are kept
};

}  // namespace uopd::engine
