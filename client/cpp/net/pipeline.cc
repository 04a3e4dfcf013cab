// SPDX-License-Identifier: MIT
// The life of a pipeline: how it ends, and how it lets the process fork. Its other parts are in
// pipeline_*.cc.
#include "client/cpp/net/pipeline.h"

#include <utility>

namespace uopd::client {

Pipeline::Pipeline(Session& session, size_t most_items, size_t most_bytes, Executor& numbers,
                   std::function<void(Item&, size_t)> sent)
    : session_(session),
      most_items_(most_items),
      most_bytes_(most_bytes),
      numbers_(numbers),
      sent_(std::move(sent)),
      session_id_(session.id()) {}

Pipeline::~Pipeline() = default;

void Pipeline::Close() {
  bool paused = false;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    paused = paused_;
  }
  room_.notify_all();
  session_.StopSleeping();
  if (!paused) StopEvents();
  Ended ended;
  {
    MutexLock lock(mutex_);
    FailAll(absl::CancelledError("the connection was closed"), ended);
  }
  Finish(ended);
}

void Pipeline::Pause() {
  {
    MutexLock lock(mutex_);
    paused_ = true;
  }
  session_.StopWaiting();
  StopEvents();
  calls_.lock();
  queue_.reset();
}

void Pipeline::Continue() {
  queue_ = std::make_unique<grpc::CompletionQueue>();
  calls_.unlock();
  bool again = false;
  {
    MutexLock lock(mutex_);
    paused_ = shut_down_ = false;
    tries_ = 0;  // that the stream ended is nobody's fault
    again = open_ = !items_.empty();
  }
  MutexLock lock(handler_mutex_);
  drained_ = stopping_ = false;
  if (!again) return;
  // As after any other end of a stream: the session is resumed, and tells what was served.
  handler_ = Handler::kOwn;
  thread_ = std::thread([this] {
    OnStreamEnd();
    {
      MutexLock lock(handler_mutex_);
      handler_ = Handler::kNone;
    }
    handler_left_.notify_all();
    Work();
  });
}

void Pipeline::StopEvents() {
  {
    MutexLock lock(mutex_);
    if (open_) BreakStream();
  }
  {
    MutexLock lock(mutex_);
    if (!open_) ShutDownQueue();  // otherwise when the stream has ended
  }
  {
    MutexLock lock(handler_mutex_);
    stopping_ = true;
  }
  handler_left_.notify_all();
  if (thread_.joinable()) thread_.join();
  {
    MutexLock lock(handler_mutex_);
    lock.Wait(handler_left_,
              [this]() UOPD_REQUIRES(handler_mutex_) { return handler_ == Handler::kNone; });
  }
  while (HandleOne(std::chrono::system_clock::time_point::max())) {
  }
}

void Pipeline::ShutDownQueue() {
  if (!shut_down_) queue_->Shutdown();
  shut_down_ = true;
}

void Pipeline::Finish(Ended& ended) {
  v1::PipelineResponse none;
  for (auto& [item, status] : ended) {
    if (item->done) item->done(status, none);
  }
  ended.clear();
}

}  // namespace uopd::client
