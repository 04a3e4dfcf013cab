// SPDX-License-Identifier: MIT
// The calls that wait for an answer: what comes in, how much of it there is, and what is cancelled.
#include "client/cpp/net/pipeline.h"

#include <algorithm>
#include <utility>

namespace uopd::client {

v1::ExecuteRequest* Pipeline::Item::execute() {
  if (request.has_repeat()) return request.mutable_repeat()->mutable_execute();
  return request.has_execute() ? request.mutable_execute() : nullptr;
}

void Pipeline::Item::GiveIds(Executor& numbers) {
  const uint64_t steps = request.has_repeat() ? request.repeat().steps() : 1;
  execute()->set_request_id(numbers.NewRequestIds(steps));
}

RequestIds Pipeline::Item::ids() const {
  if (!request.has_repeat()) return {.first = request.execute().request_id()};
  const v1::RepeatRequest& repeat = request.repeat();
  return {.first = repeat.execute().request_id() + repeat.skip(),
          .more = repeat.steps() - repeat.skip() - 1};
}

void Pipeline::Push(std::unique_ptr<Item> item) {
  const Queued queued = Queue(item);
  if (!queued.refused.ok()) {
    Ended ended;
    ended.emplace_back(std::move(item), queued.refused);
    return Finish(ended);
  }
  if (!queued.must_wait) return;
  // The message before is still being written, as far as we know. Perhaps nobody looks.
  {
    MutexLock lock(handler_mutex_);
    if (handler_ != Handler::kNone) return;
    last_waiting_ = {};
  }
  handler_left_.notify_all();
}

absl::Status Pipeline::CheckUses(const Item& item) {
  for (uint64_t handle : item.uses) {
    const auto found = missing_.find(handle);
    const absl::Status why = found == missing_.end() ? CheckHeld(handle) : found->second;
    if (why.ok()) continue;
    for (uint64_t made : item.makes) missing_.insert_or_assign(made, why);
    return why;
  }
  for (uint64_t handle : item.makes) {
    missing_.erase(handle);
    if (handle < lost_below_) made_again_.insert(handle);
  }
  const v1::ExecuteRequest& execute =
      item.request.has_repeat() ? item.request.repeat().execute() : item.request.execute();
  for (uint64_t handle : execute.free_buffers()) {
    missing_.erase(handle);
    made_again_.erase(handle);
  }
  return absl::OkStatus();
}

absl::Status Pipeline::CheckHeld(uint64_t handle) const {
  return handle < lost_below_ && !made_again_.contains(handle) ? lost_ : absl::OkStatus();
}

absl::Status Pipeline::Held(uint64_t handle) {
  if (handle >= lost_below_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(mutex_);
  return CheckHeld(handle);
}

Pipeline::Queued Pipeline::Queue(std::unique_ptr<Item>& item) {
  MutexLock lock(mutex_);
  lock.Wait(room_, [this]() UOPD_REQUIRES(mutex_) {
    return closing_ || items_.empty() || (items_.size() < most_items_ && held_bytes_ < most_bytes_);
  });
  if (absl::Status refused = CheckUses(*item); !refused.ok()) return {.refused = refused};
  if (items_.empty()) {
    front_since_ = Clock::now();
    deadline_passed_ = false;
  }
  if (items_.empty()) progress_ = {};
  Count(*item);
  items_.push_back(std::move(item));
  if (closing_ || paused_) return {};  // Close ends it, or Continue sends it
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  if (!open_)
    OpenStream();
  else
    WriteNext();
  return {.must_wait = started_ && next_ < items_.size()};
}

bool Pipeline::WaitForRoom(absl::Duration time) {
  const auto until = Clock::now() + absl::ToChronoNanoseconds(std::min(time, absl::Hours(24)));
  MutexLock lock(mutex_);
  // Some calls of the library are several calls here.
  const auto roomy = [this]() UOPD_REQUIRES(mutex_) {
    return closing_ || (items_.size() <= most_items_ / 2 && held_bytes_ <= most_bytes_ / 2);
  };
  lock.WaitUntil(room_, until, roomy);
  return roomy();
}

Progress Pipeline::progress() {
  MutexLock lock(mutex_);
  Progress out = progress_;
  out.calls = items_.size();
  return out;
}

std::optional<Progress::Daemon> Pipeline::AskDaemon() {
  const std::scoped_lock lock(calls_);
  const auto response = session_.GetProgress();
  if (!response.ok()) return std::nullopt;
  return Progress::Daemon{response->programs(), response->kernels(), response->kernels_ready(),
                          response->kernels_to_tune()};
}

void Pipeline::Count(const Item& item) {
  held_bytes_ += item.held_bytes;
  if (item.request.has_upload()) progress_.upload_bytes += item.payload_bytes;
  progress_.download_bytes += item.request.download().bytes();
}

void Pipeline::Uncount(const Item& item) {
  held_bytes_ -= item.held_bytes;
  if (item.request.has_upload()) progress_.uploaded_bytes += item.payload_bytes;
  progress_.downloaded_bytes += item.request.download().bytes();
}

std::unique_ptr<Pipeline::Item> Pipeline::PopFront() {
  std::unique_ptr<Item> out = std::move(items_.front());
  items_.pop_front();
  if (next_ > 0) --next_;
  Uncount(*out);
  front_since_ = Clock::now();
  deadline_passed_ = false;
  return out;
}

void Pipeline::CancelAll() {
  std::vector<RequestIds> sent;
  Ended ended;
  {
    MutexLock lock(mutex_);
    const absl::Status cancelled = absl::CancelledError("cancelled by the client");
    // What was not sent ends here, and all else when the daemon has answered.
    while (items_.size() > next_) {
      Uncount(*items_.back());
      ended.emplace_back(std::move(items_.back()), cancelled);
      items_.pop_back();
    }
    for (auto& item : items_) {
      const bool before = std::exchange(item->cancelled, true);
      if (!before && item->execute() != nullptr) sent.push_back(item->ids());
    }
    std::reverse(ended.begin(), ended.end());
  }
  room_.notify_all();
  Finish(ended);
  for (const RequestIds& ids : sent) CancelOnDaemon(ids);
}

void Pipeline::CancelOnDaemon(RequestIds ids) {
  const std::scoped_lock lock(calls_);
  session_.CancelExecute(ids).IgnoreError();
}

}  // namespace uopd::client
