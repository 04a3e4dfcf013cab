// SPDX-License-Identifier: MIT
// Write-behind: a bounded queue of changes and the thread that hands them to the disk in batches.
//
// Thread-safe. A queued row can be read (Find) until its batch is written. A batch has the changes
// that came within a short time (QueueOptions::gather), and those that came while the batch before
// it was committed. Batches are worthwhile because a commit waits for the disk several times,
// whatever its size. A new row is dropped if the row that waits for the same address has a greater
// fence. The sink handles failures. Exception: UNAVAILABLE means that another connection has locked
// the file; then the batch stays first in the queue and is tried again.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/file/cache_file.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct QueueOptions {
  int64_t max_bytes = int64_t{64} << 20;
  size_t max_ops = 4096;
  std::chrono::milliseconds put_wait{100};  // how long a put waits for room before it is refused
  // How long the first change of a batch waits for others that share its commit.
  std::chrono::milliseconds gather{20};
};

enum class PushOutcome { kQueued, kNoRoom, kStale };

class WriteQueue {
 public:
  // Returns the status that Flush reports. Called from the queue's thread only.
  using Sink = std::function<absl::Status(const std::vector<WriteOp>&)>;

  // `idle` runs on the queue's thread about once a second while there is nothing to write.
  // `all_written` runs there when everything that was queued has been written, with the queue
  // locked: it must be short.
  WriteQueue(QueueOptions options, Sink sink, std::function<void()> idle,
             std::function<void()> all_written = {});
  ~WriteQueue();  // writes what is queued; gives up on it at the first failure
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // kNoRoom: the queue is full. A put has waited for room then; other changes do not wait, because
  // they may be lost. kStale: a row of a greater fence waits; the new row is dropped and
  // `op.settled` is not called. Otherwise `op.settled` is called without a lock when the batch with
  // the change is written or given up.
  PushOutcome Push(WriteOp op) UOPD_EXCLUDES(mu_);
  std::shared_ptr<const Row> Find(const Digest& address) const UOPD_EXCLUDES(mu_);
  // Waits until all earlier changes are done. Returns the first failure since the last Flush, if
  // any.
  absl::Status Flush() UOPD_EXCLUDES(mu_);

 private:
  struct Pending {
    std::shared_ptr<const Row> row;
    uint64_t sequence;
  };
  struct Queued {
    WriteOp op;
    uint64_t sequence;
    int64_t bytes;
  };
  void Loop() UOPD_EXCLUDES(mu_);
  void Finish(const std::vector<Queued>& batch, const absl::Status& status) UOPD_REQUIRES(mu_);

  const QueueOptions options_;
  const Sink sink_;
  const std::function<void()> idle_, all_written_;
  mutable Mutex mu_;
  std::condition_variable work_, room_, done_;
  std::deque<Queued> queue_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<Digest, Pending> pending_ UOPD_GUARDED_BY(mu_);
  int64_t bytes_ UOPD_GUARDED_BY(mu_) = 0;     // queued and in flight
  uint64_t pushed_ UOPD_GUARDED_BY(mu_) = 0;   // sequence of the last push
  uint64_t written_ UOPD_GUARDED_BY(mu_) = 0;  // all changes up to this sequence are done
  int flushes_ UOPD_GUARDED_BY(mu_) = 0;       // waiting calls of Flush; batches do not gather then
  uint64_t attempts_ UOPD_GUARDED_BY(mu_) = 0, busy_attempts_ UOPD_GUARDED_BY(mu_) = 0;
  absl::Status error_ UOPD_GUARDED_BY(mu_);
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last member: the thread uses all others
};

}  // namespace uopd::cache
