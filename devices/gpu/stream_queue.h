// SPDX-License-Identifier: MIT
// The order of a stream of a GPU: what waits for the host, what is on the chip, and what came back.
//
//   Push ──► queued ──────► in flight ──────► landed ──────► done
//              │ a wait for     │ the event       │ a wait on the chip:
//              ▼ the host       │ is reached      ▼ the signal, or the failure
//            blocked            ▼                 held
//
// queued     Not given to the driver. The pushing thread gives work on at once, unless a wait that
//            only the host can pass is ahead; behind such a wait a thread of the queue does it.
// in flight  In the driver's stream. A thread of the queue asks for events. Work has no event of
// its
//            own: the thread records one behind everything that is in flight.
// landed     Done on the chip. In their order: results are moved to the host, semaphores signalled,
//            references dropped.
//
// Errors. Work that fails when it is given to the driver (a set StopFlag, no memory) is a failure
// in its turn: what is before it is done, what is behind it is not given on. Work that turns out to
// be stopped when it lands makes what is behind it fail too; but what was in flight already ran.
// Memory of the host is read when work is given on, and written when work lands. So work that reads
// it waits, as behind a wait for the host, until what writes it has landed: in this queue, or ahead
// of an event of another one.
//
// Once the context is lost, everything lands at once, with the context's status.
// A wait on the chip whose semaphore has failed may be for a device that is lost, and then the chip
// waits for ever. The chip cannot be told. So after a moment the host gives up what lies behind
// such a wait: it fails with the semaphore, and a driver's stream of its own takes what comes
// later. What was given up, and the memory that it uses, stays with the stream that it is on until
// the chip is done with it.
//
// Owned by shared_ptr: by the stream, the semaphore that is waited for, and the thread at work.
// Only one thread pushes at a time; signals may come from any thread.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/mutex.h"
#include "devices/api/semaphore.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

class StreamQueue : public std::enable_shared_from_this<StreamQueue> {
 public:
  static absl::StatusOr<std::shared_ptr<StreamQueue>> Create(std::shared_ptr<GpuContext> context);
  ~StreamQueue();
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  struct Work {
    // Gives commands to the driver's stream. It must not wait, and must not use this queue. The
    // context is current.
    std::function<absl::Status(StreamHandle)> submit;
    // When the commands are done. Null: nothing is left to do. The context is current.
    std::function<absl::Status()> land;
    // Reads memory of the host: when it is given on, or on the chip. It is not given on before
    // everything ahead of it that writes such memory has landed.
    bool reads_host = false;
    bool writes_host = false;  // writes memory of the host: when it lands, or on the chip
    // Uses pinned memory until it lands. Only kMostStaged of such work are in flight: the next one
    // waits for the first one.
    bool staged = false;
    // Called once if the host gives the work up while the chip still has it. Null: there is nothing
    // to do.
    std::function<void()> abandon;
  };
  static constexpr int kMostStaged = 8;
  // The functions hold what the work needs; they are destroyed when it is done.
  void Push(Work work) UOPD_EXCLUDES(mu_);
  void PushWait(TimePoint until) UOPD_EXCLUDES(mu_);
  void PushRecord(TimePoint point) UOPD_EXCLUDES(mu_);
  // Drops the reference to `object` when its turn comes, also after an error.
  void PushDrop(std::shared_ptr<const void> object) UOPD_EXCLUDES(mu_);
  // Waits until all is done. Returns the first error since the last call, and forgets it.
  absl::Status Synchronize() UOPD_EXCLUDES(mu_);

 private:
  struct Item {
    enum Kind { kWork, kWait, kRecord, kDrop } kind = kWork;
    Work work;
    TimePoint point;                     // for a wait or a record
    std::shared_ptr<const void> object;  // for a drop; of a wait for another device: that it is one
    absl::Status failure;                // of the submission
    bool submitted = false;              // the driver's stream has something of it
    bool writes_host = false;            // counted in host_writes_
    bool staged = false;                 // counted in staged_
    std::shared_ptr<GpuEvent> event;     // behind this item and all before it
  };

  StreamQueue(std::shared_ptr<GpuContext> context, StreamHandle native)
      : context_(std::move(context)), native_(native) {}

  void Append(Item item) UOPD_EXCLUDES(mu_);
  // Gives on what can be given on.
  void Submit() UOPD_EXCLUDES(mu_);
  // Nothing can be given on now.
  bool Stuck() const UOPD_REQUIRES(mu_) {
    return blocked_ || queued_.empty() || (queued_.front().work.reads_host && host_writes_ > 0) ||
           (queued_.front().work.staged && staged_ >= kMostStaged);
  }
  absl::Status SubmitOne(Item& item) UOPD_REQUIRES(mu_);
  // Makes the end of what is in flight visible, if no event does yet.
  absl::Status MarkEnd() UOPD_REQUIRES(mu_);
  // Item::writes_host and Item::staged of an item that is done.
  void Uncount(bool writes_host, bool staged) UOPD_REQUIRES(mu_);
  void Unblock(const absl::Status& reached) UOPD_EXCLUDES(mu_);
  void Unhold(const absl::Status& reached, bool writes_host) UOPD_EXCLUDES(mu_);
  void NeedThread() UOPD_REQUIRES(mu_);
  void Run() UOPD_EXCLUDES(mu_);
  // Moves what is done on the chip from in flight to landed. False: nothing is done yet.
  bool Collect() UOPD_REQUIRES(mu_);
  // What is in flight waits on the chip for a semaphore that has failed.
  bool WaitsInVain() const UOPD_REQUIRES(mu_);
  // Fails what is in flight, and moves it to a queue that keeps it until the chip is done.
  // REQUIRES: WaitsInVain().
  void GiveUp() UOPD_EXCLUDES(mu_);
  // Finishes landed items until one holds the queue.
  void Land() UOPD_EXCLUDES(mu_);
  absl::Status LandOne(Item& item, const absl::Status& before) UOPD_EXCLUDES(mu_);
  bool Empty() const UOPD_REQUIRES(mu_) {
    return queued_.empty() && flight_.empty() && landed_.empty() && !blocked_ && !held_ &&
           !landing_;
  }

  const std::shared_ptr<GpuContext> context_;
  mutable Mutex mu_;
  StreamHandle native_ UOPD_GUARDED_BY(mu_);  // null: the next work makes it
  std::condition_variable changed_;
  std::deque<Item> queued_ UOPD_GUARDED_BY(mu_);
  std::deque<Item> flight_ UOPD_GUARDED_BY(mu_);
  std::deque<Item> landed_ UOPD_GUARDED_BY(mu_);
  bool blocked_ UOPD_GUARDED_BY(mu_) = false;
  bool held_ UOPD_GUARDED_BY(mu_) = false;
  int host_writes_ UOPD_GUARDED_BY(mu_) = 0;  // in flight or landed, and not done
  int staged_ UOPD_GUARDED_BY(mu_) = 0;       // the same
  bool landing_ UOPD_GUARDED_BY(mu_) = false;
  bool has_thread_ UOPD_GUARDED_BY(mu_) = false;
  absl::Status submit_status_ UOPD_GUARDED_BY(mu_);  // not OK: nothing more is given on
  absl::Status status_ UOPD_GUARDED_BY(mu_);         // the first failure of what landed
};

}  // namespace uopd::devices::gpu
