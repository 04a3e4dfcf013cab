// SPDX-License-Identifier: MIT
// The primary context of a CUDA device, which its memory, code, streams and events share.
//
// Lost: a kernel that fails (an illegal address, a trap) breaks the context for good, and every
// later call returns the same code. The first such code, or Lose, makes the context lost: status()
// is UNAVAILABLE from then on, and nothing of uopd calls the driver for this context any more. What
// it holds is freed when the driver resets the context or the process ends.
//
//     open ──── a sticky code, or Lose ───► lost ──── CudaDriver::OpenContext ───► reset
//
// Owned by shared_ptr: by the device and by everything on it. Thread-safe.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "devices/cuda/cuda_driver.h"

namespace uopd::devices::cuda {

class CudaContext : public std::enable_shared_from_this<CudaContext> {
 public:
  static absl::StatusOr<std::shared_ptr<CudaContext>> Retain(CudaDriver& driver, int index);
  // Gives the primary context back.
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // Codes after which a context is of no use.
  static bool IsSticky(CuResult result);

  CudaDriver& driver() const { return driver_; }
  const CudaApi& api() const { return driver_.api(); }
  CuDevice device() const { return device_; }
  const std::string& name() const { return name_; }  // "CUDA:0"

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // OK, or why the context is lost.
  absl::Status status() const UOPD_EXCLUDES(mu_);
  // Only the first reason counts. REQUIRES: `why` is UNAVAILABLE.
  void Lose(absl::Status why) UOPD_EXCLUDES(mu_);

  // Makes the context the calling thread's. Every call that needs a context comes after Enter on
  // the same thread. False: the context is lost, and the driver must not be called.
  bool Enter();
  // The status of a call. A sticky code loses the context.
  absl::Status Check(CuResult result, const char* call) UOPD_EXCLUDES(mu_);

  absl::StatusOr<CuStream> NewStream() UOPD_EXCLUDES(mu_);
  void DestroyStream(CuStream stream) UOPD_EXCLUDES(mu_);
  // UNAVAILABLE: a stream of the lost context still works, so a reset would wait for it.
  absl::Status CheckIdle() UOPD_EXCLUDES(mu_);

  // Events are used again, as making one costs much more than recording one.
  absl::StatusOr<CuEvent> TakeEvent(bool timed) UOPD_EXCLUDES(mu_);
  void GiveEvent(CuEvent event, bool timed) UOPD_EXCLUDES(mu_);

 private:
  CudaContext(CudaDriver& driver, CuDevice device, std::string name)
      : driver_(driver), device_(device), name_(std::move(name)) {}

  CudaDriver& driver_;
  const CuDevice device_;
  const std::string name_;
  CuContext handle_ = nullptr;  // constant after Retain
  std::atomic<bool> lost_ = false;
  mutable Mutex mu_;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
  std::vector<CuStream> streams_ UOPD_GUARDED_BY(mu_);        // that exist
  std::vector<CuEvent> idle_events_[2] UOPD_GUARDED_BY(mu_);  // [timed]
};

// An event of a stream: recorded once, asked often, and given back when the last reference goes.
class CudaEvent {
 public:
  // Records an event behind what `stream` has queued. REQUIRES: context->Enter().
  static absl::StatusOr<std::shared_ptr<CudaEvent>> Record(std::shared_ptr<CudaContext> context,
                                                           CuStream stream, bool timed);
  ~CudaEvent() { context_->GiveEvent(event_, timed_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  CudaContext& context() const { return *context_; }
  CuEvent handle() const { return event_; }
  // True: what lies before the event is done, or the context is lost. REQUIRES: context->Enter(),
  // or the context is lost.
  bool Reached();
  // Nanoseconds from `start` to this event. REQUIRES: both are timed and reached.
  absl::StatusOr<int64_t> Since(const CudaEvent& start);

 private:
  CudaEvent(std::shared_ptr<CudaContext> context, CuEvent event, bool timed)
      : context_(std::move(context)), event_(event), timed_(timed) {}

  const std::shared_ptr<CudaContext> context_;
  const CuEvent event_;
  const bool timed_;
};

}  // namespace uopd::devices::cuda
