// SPDX-License-Identifier: MIT
// The context of a GPU, which its memory, code, streams and events share.
//
// Lost: a kernel that fails (an illegal address, a trap) breaks the context for good, and every
// later call returns the same code. The first such code, or Lose, makes the context lost: status()
// is UNAVAILABLE from then on, and nothing of uopd calls the driver for this context any more. What
// it holds is freed when the driver resets the context or the process ends.
//
//     open ──── a sticky code, or Lose ───► lost ──── GpuDriver::OpenContext ───► reset
//
// Owned by shared_ptr: by the device and by everything on it. Thread-safe.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "devices/gpu/gpu_driver.h"
#include "devices/gpu/tensor_maps.h"

namespace uopd::devices::gpu {

class GpuContext : public std::enable_shared_from_this<GpuContext> {
 public:
  static absl::StatusOr<std::shared_ptr<GpuContext>> Retain(GpuDriver& driver, int index);
  // Gives the context back.
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  // Codes after which a context is of no use.
  static bool IsSticky(GpuResult result);

  GpuDriver& driver() const { return driver_; }
  const GpuApi& api() const { return driver_.api(); }
  int device() const { return device_; }
  const std::string& name() const { return name_; }  // "CUDA:0"

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // OK, or why the context is lost.
  absl::Status status() const UOPD_EXCLUDES(mu_);
  // Only the first reason counts. REQUIRES: `why` is UNAVAILABLE.
  void Lose(absl::Status why) UOPD_EXCLUDES(mu_);

  // Waits on this chip for events of other devices that are in flight now. Those may hold back all
  // that is behind them.
  int waits_elsewhere() const { return waits_elsewhere_.load(std::memory_order_relaxed); }
  void AddWaitElsewhere(int n) { waits_elsewhere_.fetch_add(n, std::memory_order_relaxed); }

  ContextHandle handle() const { return handle_; }
  // Whether copies go directly from the memory of `source`, another context of this driver. The
  // first call asks the driver. REQUIRES: Enter().
  bool Reaches(GpuContext& source) UOPD_EXCLUDES(peers_mu_, mu_);

  // Makes the context the calling thread's. Every call that needs a context comes after Enter on
  // the same thread. False: the context is lost, and the driver must not be called.
  bool Enter();
  // The status of a call. A sticky code loses the context.
  absl::Status Check(GpuResult result, const char* call) UOPD_EXCLUDES(mu_);
  absl::Status Check(const GpuOutcome& outcome) UOPD_EXCLUDES(mu_) {
    return Check(outcome.result, outcome.call);
  }

  absl::StatusOr<StreamHandle> NewStream() UOPD_EXCLUDES(mu_);
  void DestroyStream(StreamHandle stream) UOPD_EXCLUDES(mu_);
  // UNAVAILABLE: a stream of the lost context still works, so a reset would wait for it.
  absl::Status CheckIdle() UOPD_EXCLUDES(mu_);

  TensorMaps& tensor_maps() { return tensor_maps_; }

  // Events are used again, as making one costs much more than recording one.
  absl::StatusOr<EventHandle> TakeEvent(bool timed) UOPD_EXCLUDES(mu_);
  void GiveEvent(EventHandle event, bool timed) UOPD_EXCLUDES(mu_);

 private:
  GpuContext(GpuDriver& driver, int device, std::string name)
      : driver_(driver), device_(device), name_(std::move(name)) {}

  GpuDriver& driver_;
  const int device_;
  const std::string name_;
  ContextHandle handle_ = nullptr;  // constant after Retain
  std::atomic<bool> lost_ = false;
  std::atomic<int> waits_elsewhere_ = 0;
  TensorMaps tensor_maps_;
  Mutex peers_mu_;  // locked before mu_
  std::vector<std::pair<std::weak_ptr<GpuContext>, bool>> peers_ UOPD_GUARDED_BY(peers_mu_);
  mutable Mutex mu_;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
  std::vector<StreamHandle> streams_ UOPD_GUARDED_BY(mu_);        // that exist
  std::vector<EventHandle> idle_events_[2] UOPD_GUARDED_BY(mu_);  // [timed]
};

// An event of a stream: recorded once, asked often, and given back when the last reference goes.
class GpuEvent {
 public:
  // Records an event behind what `stream` has queued. REQUIRES: context->Enter().
  static absl::StatusOr<std::shared_ptr<GpuEvent>> Record(std::shared_ptr<GpuContext> context,
                                                          StreamHandle stream, bool timed);
  ~GpuEvent() { context_->GiveEvent(event_, timed_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  GpuContext& context() const { return *context_; }
  EventHandle handle() const { return event_; }
  // True: what lies before the event is done, or the context is lost. REQUIRES: context->Enter(),
  // or the context is lost.
  bool Reached();
  // Nanoseconds from `start` to this event. REQUIRES: both are timed and reached.
  absl::StatusOr<int64_t> Since(const GpuEvent& start);

 private:
  GpuEvent(std::shared_ptr<GpuContext> context, EventHandle event, bool timed)
      : context_(std::move(context)), event_(event), timed_(timed) {}

  const std::shared_ptr<GpuContext> context_;
  EventHandle event_;  // constant
  const bool timed_;
};

}  // namespace uopd::devices::gpu
