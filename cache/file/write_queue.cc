// SPDX-License-Identifier: MIT
#include "cache/file/write_queue.h"

#include <algorithm>

#include "cache/base/lease/tokens.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

constexpr size_t kBatchOps = 256;
constexpr int64_t kBatchBytes = int64_t{8} << 20;
constexpr std::chrono::seconds kIdle{1};

}  // namespace

WriteQueue::WriteQueue(QueueOptions options, Sink sink, std::function<void()> idle,
                       std::function<void()> all_written)
    : options_(options),
      sink_(std::move(sink)),
      idle_(std::move(idle)),
      all_written_(std::move(all_written)),
      thread_([this] { Loop(); }) {}

WriteQueue::~WriteQueue() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
}

PushOutcome WriteQueue::Push(WriteOp op) {
  // Every change counts the size of its row, because the queue keeps the row in memory.
  const int64_t bytes = SizeOf(*op.row);
  {
    MutexLock lock(mu_);
    auto fits = [&]() UOPD_REQUIRES(mu_) {
      return queue_.empty() ||
             (bytes_ + bytes <= options_.max_bytes && queue_.size() < options_.max_ops);
    };
    if (!fits()) {
      if (op.kind != WriteOp::kPut) return PushOutcome::kNoRoom;
      if (!lock.WaitUntil(room_, std::chrono::steady_clock::now() + options_.put_wait, fits)) {
        return PushOutcome::kNoRoom;
      }
    }
    if (op.kind == WriteOp::kPut) {
      auto [it, added] = pending_.try_emplace(op.address, op.row, pushed_ + 1);
      if (!added) {
        if (KeepsOut(it->second.row->fence, op.row->fence, WallClockUs()))
          return PushOutcome::kStale;
        it->second = {op.row, pushed_ + 1};
      }
    }
    ++pushed_;
    bytes_ += bytes;
    queue_.push_back({std::move(op), pushed_, bytes});
  }
  work_.notify_one();
  return PushOutcome::kQueued;
}

std::shared_ptr<const Row> WriteQueue::Find(const Digest& address) const {
  MutexLock lock(mu_);
  auto it = pending_.find(address);
  return it == pending_.end() ? nullptr : it->second.row;
}

absl::Status WriteQueue::Flush() {
  MutexLock lock(mu_);
  const uint64_t last = pushed_;
  const uint64_t attempts = attempts_;
  ++flushes_;
  work_.notify_one();
  lock.Wait(done_, [&]() UOPD_REQUIRES(mu_) {
    // An attempt that began after this call found the file locked: waiting longer may not help.
    return written_ >= last || busy_attempts_ > attempts;
  });
  --flushes_;
  if (written_ < last) {
    return absl::UnavailableError("The cache file is locked by another process");
  }
  return std::exchange(error_, absl::OkStatus());
}

void WriteQueue::Finish(const std::vector<Queued>& batch, const absl::Status& status) {
  for (const Queued& queued : batch) {
    bytes_ -= queued.bytes;
    auto it = pending_.find(queued.op.address);
    if (it != pending_.end() && it->second.sequence == queued.sequence) pending_.erase(it);
  }
  written_ = queue_.empty() ? pushed_ : queue_.front().sequence - 1;
  if (error_.ok()) error_ = status;
}

void WriteQueue::Loop() {
  for (;;) {
    std::vector<Queued> batch;
    uint64_t attempt;
    {
      MutexLock lock(mu_);
      lock.WaitUntil(work_, std::chrono::steady_clock::now() + kIdle,
                     [&]() UOPD_REQUIRES(mu_) { return stop_ || !queue_.empty(); });
      if (!queue_.empty()) {
        lock.WaitUntil(
            work_, std::chrono::steady_clock::now() + options_.gather, [&]() UOPD_REQUIRES(mu_) {
              return stop_ || flushes_ > 0 || queue_.size() >= kBatchOps || bytes_ >= kBatchBytes;
            });
      }
      int64_t bytes = 0;
      while (!queue_.empty() && batch.size() < kBatchOps && bytes < kBatchBytes) {
        bytes += queue_.front().bytes;
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (batch.empty()) {
        written_ = pushed_;
        if (stop_) return;
      }
      attempt = ++attempts_;
    }
    if (batch.empty()) {
      done_.notify_all();
      idle_();
      continue;
    }
    std::vector<WriteOp> ops;
    ops.reserve(batch.size());
    for (const Queued& queued : batch) ops.push_back(queued.op);
    const absl::Status status = sink_(ops);
    {
      MutexLock lock(mu_);
      if (absl::IsUnavailable(status) && !stop_) {
        busy_attempts_ = attempt;
        queue_.insert(queue_.begin(), std::make_move_iterator(batch.begin()),
                      std::make_move_iterator(batch.end()));
        batch.clear();
      }
    }
    // Before Finish, which removes the rows from the queue: so a row that was given up can be read
    // here until `settled` has put it elsewhere.
    for (const Queued& queued : batch) {
      if (queued.op.settled) queued.op.settled(status);
    }
    if (!batch.empty()) {
      MutexLock lock(mu_);
      Finish(batch, status);
      if (status.ok() && queue_.empty() && all_written_) all_written_();
    }
    room_.notify_all();
    done_.notify_all();
  }
}

}  // namespace uopd::cache
