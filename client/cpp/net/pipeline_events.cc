// SPDX-License-Identifier: MIT
// Which thread handles the events of the stream: one that waits for an answer, or the pipeline's
// own.
#include "client/cpp/net/pipeline.h"

#include <algorithm>

namespace uopd::client {

bool Pipeline::HandleOne(std::chrono::system_clock::time_point until) {
  void* tag = nullptr;
  bool ok = false;
  switch (queue_->AsyncNext(&tag, &ok, until)) {
    case grpc::CompletionQueue::SHUTDOWN: {
      MutexLock lock(handler_mutex_);
      drained_ = true;
      return false;
    }
    case grpc::CompletionQueue::TIMEOUT:
      return false;
    case grpc::CompletionQueue::GOT_EVENT:
      OnEvent(static_cast<Tag>(reinterpret_cast<intptr_t>(tag)), ok);
      break;
  }
  return true;
}

void Pipeline::LeaveEvents() {
  bool stopping = false;
  {
    MutexLock lock(handler_mutex_);
    handler_ = Handler::kNone;
    last_waiting_ = Clock::now();
    stopping = stopping_ || drained_;
  }
  if (stopping) handler_left_.notify_all();  // otherwise the own thread looks by itself
}

void Pipeline::DriveUntil(const std::function<bool()>& done, absl::Time until) {
  if (done()) return;
  const auto end = std::min(until, absl::Now() + absl::Hours(24));
  {
    MutexLock lock(handler_mutex_);
    if (handler_ == Handler::kWaiting) return;
    // The own thread makes room after the next event.
    ++wanted_;
    lock.WaitUntil(handler_left_, absl::ToChronoTime(end), [&]() UOPD_REQUIRES(handler_mutex_) {
      return handler_ != Handler::kOwn || drained_;
    });
    --wanted_;
    if (handler_ != Handler::kNone || drained_) return;
    handler_ = Handler::kWaiting;
  }
  for (bool more = true; more && !done() && absl::Now() < end;) {
    const auto soon = std::min(end, absl::Now() + absl::Seconds(1));
    if (!HandleOne(absl::ToChronoTime(soon))) {
      OnSilence();
      MutexLock lock(handler_mutex_);
      more = !drained_ && !stopping_;
    }
  }
  LeaveEvents();
}

bool Pipeline::MayWork() const {
  return stopping_ || (wanted_ == 0 && Clock::now() >= last_waiting_ + kPause);
}

// The pipeline's own thread.
void Pipeline::Work() {
  for (;;) {
    {
      MutexLock lock(handler_mutex_);
      while (!drained_ && !(handler_ == Handler::kNone && MayWork())) {
        // Nobody wakes this thread when a waiting one leaves: that would cost as much as is saved.
        lock.WaitUntil(handler_left_, Clock::now() + kPause,
                       [this]() UOPD_REQUIRES(handler_mutex_) {
                         return drained_ || (handler_ == Handler::kNone && MayWork());
                       });
      }
      if (drained_) return;
      handler_ = Handler::kOwn;
    }
    for (bool mine = true; mine;) {
      if (!HandleOne(std::chrono::system_clock::now() + std::chrono::seconds(1))) OnSilence();
      MutexLock lock(handler_mutex_);
      mine = !drained_ && MayWork();
    }
    MutexLock lock(handler_mutex_);
    handler_ = Handler::kNone;
    handler_left_.notify_all();
    if (drained_) return;
  }
}

}  // namespace uopd::client
