// SPDX-License-Identifier: MIT
#include "client/cpp/net/pipeline.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "client/cpp/net/grpc_status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr int kTries = 5;  // of a call, without any answer between them
constexpr size_t kMostMissing = 1 << 16;
constexpr auto kSideTime = std::chrono::seconds(1);  // to get shared memory
constexpr size_t kLeastShared = 128 << 10;         // bytes; a smaller chunk travels in its message
constexpr auto kGrace = std::chrono::seconds(10);  // for the answer to a call that was cancelled

absl::Status StatusOf(const v1::PipelineResponse& response) {
  const auto code = static_cast<absl::StatusCode>(response.code());
  if (!response.has_node_error()) return absl::Status(code, response.message());
  return WithNodeOf(code, response.message(), response.node_error());
}

}  // namespace

Pipeline::Pipeline(Session& session, size_t most_items, size_t most_bytes,
                   std::function<uint64_t()> new_request_id,
                   std::function<void(const Item&, size_t)> sent)
    : session_(session),
      most_items_(most_items),
      most_bytes_(most_bytes),
      new_request_id_(std::move(new_request_id)),
      sent_(std::move(sent)) {}

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

void Pipeline::Push(std::unique_ptr<Item> item) {
  if (const absl::Status missing = CheckUses(*item); !missing.ok()) {
    Ended ended;
    ended.emplace_back(std::move(item), missing);
    return Finish(ended);
  }
  if (!Queue(std::move(item))) return;
  // The message before is still being written, as far as we know. Perhaps nobody looks.
  {
    MutexLock lock(handler_mutex_);
    if (handler_ != Handler::kNone) return;
    last_waiting_ = {};
  }
  handler_left_.notify_all();
}

void Pipeline::OpenArea() {
  {
    MutexLock lock(mutex_);
    if (area_ != nullptr || !ask_for_area_ || closing_ || paused_) return;
    ask_for_area_ = false;
  }
  Session::Side side = session_.TakeSide();
  if (side.token.empty() && session_.has_side()) {  // it was used for the stream before this one
    const std::unique_lock lock(calls_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    uint64_t ignored = 0;
    session_.Resume(&ignored);
    side = session_.TakeSide();
  }
  if (side.token.empty()) return;
  auto area = SharedArea::Open(session_.options().address, side.suffix, side.token, kSideTime);
  MutexLock lock(mutex_);
  area_ = std::move(area);
}

bool Pipeline::SoonFree() {
  return !closing_ && !paused_ && area_ != nullptr && !area_->HasFree() &&
         std::none_of(items_.begin(), items_.end(), [](const auto& item) {
           return item->request.has_execute() || item->request.has_prepare();
         });
}

bool Pipeline::Share(std::string_view bytes, Item& item) {
  if (bytes.size() < kLeastShared || bytes.size() > SharedArea::kSlotBytes) return false;
  const auto free = [this] {
    MutexLock lock(mutex_);
    return !SoonFree();
  };
  for (;;) {
    {
      MutexLock lock(mutex_);
      item.slot = SharedSlot::Take(area_);
      if (!item.slot && !SoonFree()) return false;
    }
    if (item.slot) break;
    DriveUntil(free, absl::Now() + absl::Seconds(1));
    MutexLock lock(mutex_);  // another thread may drive
    lock.WaitUntil(room_, Clock::now() + kPause,
                   [this]() UOPD_REQUIRES(mutex_) { return !SoonFree(); });
  }
  std::memcpy(item.slot.data(), bytes.data(), bytes.size());
  item.payload_bytes = bytes.size();
  return true;
}

std::string_view Pipeline::Item::Downloaded(const v1::PipelineResponse& response) const {
  if (slot) return {slot.data(), payload_bytes};
  return response.download().data();
}

absl::Status Pipeline::CheckUses(const Item& item) {
  MutexLock lock(mutex_);
  for (uint64_t handle : item.uses) {
    const auto found = missing_.find(handle);
    if (found == missing_.end()) continue;
    const absl::Status why = found->second;
    for (uint64_t made : item.makes) missing_.insert_or_assign(made, why);
    return why;
  }
  for (uint64_t handle : item.makes) missing_.erase(handle);
  for (uint64_t handle : item.request.execute().free_buffers()) missing_.erase(handle);
  return absl::OkStatus();
}

bool Pipeline::Queue(std::unique_ptr<Item> item) {
  MutexLock lock(mutex_);
  lock.Wait(room_, [this]() UOPD_REQUIRES(mutex_) {
    return closing_ || items_.empty() || (items_.size() < most_items_ && held_bytes_ < most_bytes_);
  });
  if (items_.empty()) {
    front_since_ = Clock::now();
    deadline_passed_ = false;
  }
  if (items_.empty()) progress_ = {};
  Count(*item);
  items_.push_back(std::move(item));
  if (closing_ || paused_) return false;  // Close ends it, or Continue sends it
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  if (!open_)
    OpenStream();
  else
    WriteNext();
  return started_ && next_ < items_.size();
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

void Pipeline::CancelAll() {
  std::vector<uint64_t> sent;
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
      if (!before && item->request.has_execute())
        sent.push_back(item->request.execute().request_id());
    }
    std::reverse(ended.begin(), ended.end());
  }
  room_.notify_all();
  Finish(ended);
  for (uint64_t id : sent) CancelOnDaemon(id);
}

void Pipeline::CancelOnDaemon(uint64_t request_id) {
  const std::scoped_lock lock(calls_);
  session_.CancelExecute(request_id).IgnoreError();
}

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

void Pipeline::OpenStream() {
  open_ = true;
  started_ = writing_ = reading_ = broken_ = finishing_ = false;
  context_ = std::make_unique<grpc::ClientContext>();
  session_.AddCredentials(*context_);
  stream_ = session_.stub().PrepareAsyncPipeline(context_.get(), queue_.get());
  stream_->StartCall(AsTag(kStarted));
}

void Pipeline::BreakStream() {
  if (context_ != nullptr) context_->TryCancel();
  FinishIfBroken();
}

void Pipeline::OnEvent(Tag tag, bool ok) {
  bool over = false;
  switch (tag) {
    case kStarted: {
      MutexLock lock(mutex_);
      started_ = true;
      if (ok) {
        reading_ = true;
        stream_->Read(&incoming_, AsTag(kRead));
        WriteNext();
      } else {
        broken_ = true;
      }
      FinishIfBroken();
      break;
    }
    case kWritten: {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) broken_ = true;
      WriteNext();
      FinishIfBroken();
      break;
    }
    case kRead: {
      if (ok) OnResponse();
      MutexLock lock(mutex_);
      if (ok && !broken_) {
        stream_->Read(&incoming_, AsTag(kRead));
      } else {
        reading_ = false;
        broken_ = true;
        FinishIfBroken();
      }
      break;
    }
    case kFinished:
      over = true;
      break;
  }
  if (over) OnStreamEnd();
}

// The stream can be finished once nothing is read or written.
void Pipeline::FinishIfBroken() {
  if (!broken_ || !started_ || writing_ || finishing_) return;
  if (reading_) {
    context_->TryCancel();
    return;
  }
  finishing_ = true;
  stream_->Finish(&status_, AsTag(kFinished));
}

bool Pipeline::Complete(Item& item) {
  if (item.slot && item.slot.area() != area_) {  // of an earlier stream
    if (item.request.has_upload()) {
      item.payload = std::make_shared<const std::string>(item.slot.data(), item.payload_bytes);
      item.payload_begin = 0;
    }
    item.slot = {};
  }
  if (item.request.has_download() && !item.slot && area_ != nullptr &&
      item.payload_bytes >= kLeastShared) {
    item.slot = SharedSlot::Take(area_);
    const bool soon =
        !item.slot && std::any_of(items_.begin(), items_.begin() + next_,
                                  [](const auto& sent) { return static_cast<bool>(sent->slot); });
    if (soon) return false;
  }
  v1::AreaRange range;
  if (item.slot) {
    range.set_area(area_->number());
    range.set_offset(item.slot.offset());
    range.set_bytes(item.payload_bytes);
  }
  if (item.request.has_download()) {
    item.request.mutable_download()->clear_area();
    if (item.slot) *item.request.mutable_download()->mutable_area() = range;
  } else if (item.request.has_upload()) {
    v1::UploadRequest& upload = *item.request.mutable_upload();
    upload.clear_area();
    if (item.slot) {
      *upload.mutable_area() = range;
    } else if (item.payload != nullptr) {
      upload.mutable_data()->swap(data_);  // memory that is there already (chunk_pool.h)
      upload.mutable_data()->assign(item.payload->data() + item.payload_begin, item.payload_bytes);
    }
  }
  return true;
}

void Pipeline::WriteNext() {
  if (!started_ || writing_ || broken_ || next_ == items_.size()) return;
  Item& item = *items_[next_];
  if (!Complete(item)) return;
  ++next_;
  writing_ = true;
  item.sequence = item.sent_as = ++sequence_;
  item.request.set_sequence(item.sequence);
  item.request.set_epoch(epoch_);
  stream_->Write(item.request, AsTag(kWritten));  // the message is copied
  sent_(item, item.request.ByteSizeLong());
  if (item.request.has_upload() && item.payload != nullptr) {
    item.request.mutable_upload()->mutable_data()->swap(data_);
    item.request.mutable_upload()->clear_data();
  }
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

void Pipeline::Rewind() {
  for (auto& item : items_) item->sequence = 0;
  next_ = 0;
  ++epoch_;
}

void Pipeline::OnResponse() {
  std::unique_ptr<Item> answered;
  Ended ended;
  {
    MutexLock lock(mutex_);
    // Answers come in order. An answer to a call that was sent again, or ended here, is ignored.
    if (items_.empty() || items_.front()->sequence != incoming_.sequence()) return;
    if (incoming_.code() == 0) {
      tries_ = 0;
      answered = PopFront();
    } else {
      OnFailure(incoming_, ended);
    }
  }
  if (answered != nullptr && answered->done) answered->done(absl::OkStatus(), incoming_);
  answered.reset();  // gives shared memory back
  Finish(ended);
  {
    MutexLock lock(mutex_);
    WriteNext();
  }
  room_.notify_all();
}

void Pipeline::OnFailure(const v1::PipelineResponse& response, Ended& ended) {
  Item& item = *items_.front();
  const std::string& kind = response.missing_error().kind();
  const absl::Status status = StatusOf(response);
  if (!item.cancelled && kind == "program" && item.graph != nullptr && !item.graph_sent) {
    item.graph_sent = true;
    item.request.mutable_execute()->set_graph(*item.graph);
    item.request.mutable_execute()->set_request_id(new_request_id_());
    Rewind();
    return;
  }
  if (!item.cancelled && kind == "area" && area_ != nullptr) {
    area_ = nullptr;  // data travel in messages
    Rewind();
    return;
  }
  const bool lost = kind == "session" || absl::IsUnavailable(status);
  if (!item.cancelled && lost && tries_ + 1 < kTries) {
    broken_ = true;  // the session is resumed when the stream has ended
    FinishIfBroken();
    return;
  }
  tries_ = 0;
  if (deadline_passed_ && !item.cancelled) {
    FailFront(absl::DeadlineExceededError("the call took longer than the connection's timeout"),
              ended);
  } else {
    const bool ours = kind == "buffer" && item.request.has_execute();
    FailFront(ours ? Session::MissingBuffer(status) : session_.Explained(status, kind), ended);
  }
  Rewind();
}

void Pipeline::FailFront(const absl::Status& status, Ended& ended) {
  absl::flat_hash_set<uint64_t> missing;
  if (missing_.size() >= kMostMissing) missing_.clear();
  auto end = [&](std::unique_ptr<Item> item, const absl::Status& error) UOPD_REQUIRES(mutex_) {
    for (uint64_t handle : item->makes) {
      missing.insert(handle);
      missing_.insert_or_assign(handle, error);
    }
    ended.emplace_back(std::move(item), error);
  };
  const bool cancelled = items_.front()->cancelled;
  end(PopFront(), status);
  std::deque<std::unique_ptr<Item>> left;
  for (auto& item : items_) {
    const bool needs = std::any_of(item->uses.begin(), item->uses.end(),
                                   [&](uint64_t handle) { return missing.contains(handle); });
    if (!needs && !(cancelled && item->cancelled)) {
      left.push_back(std::move(item));
      continue;
    }
    Uncount(*item);
    end(std::move(item), status);
  }
  items_ = std::move(left);
}

void Pipeline::FailAll(const absl::Status& status, Ended& ended) {
  while (!items_.empty()) ended.emplace_back(PopFront(), status);
  next_ = 0;
}

void Pipeline::DropServed(uint64_t last_sequence, Ended& ended) {
  std::deque<std::unique_ptr<Item>> left;
  for (auto& item : items_) {
    const bool again = item->request.has_execute() || item->request.has_download();
    if (again || item->sent_as == 0 || item->sent_as > last_sequence) {
      left.push_back(std::move(item));
      continue;
    }
    Uncount(*item);
    ended.emplace_back(std::move(item), absl::OkStatus());
  }
  items_ = std::move(left);
}

void Pipeline::OnStreamEnd() {
  Ended ended;
  bool resume = false;
  std::optional<Backoff> backoff;
  {
    MutexLock lock(mutex_);
    stream_.reset();
    context_.reset();
    started_ = false;  // open_ stays true, so that nobody else opens a stream
    area_ = nullptr;
    ask_for_area_ = true;
    resume = !closing_ && !paused_ && !items_.empty();
  }
  // What is not answered is tried some times, with waits between.
  while (resume) {
    if (!backoff) backoff.emplace(std::random_device()());
    if (!session_.Sleep(backoff->Next())) break;
    uint64_t last_sequence = 0;
    const Session::Resumed resumed = session_.Resume(&last_sequence);
    MutexLock lock(mutex_);
    if (closing_ || paused_) break;
    resume = resumed == Session::Resumed::kUnreachable;
    if (resumed == Session::Resumed::kGone) {
      FailAll(session_.Explained(absl::OkStatus(), "session"), ended);
    } else if (++tries_ >= kTries) {
      tries_ = 0;
      resume = false;
      FailAll(
          session_.Explained(absl::UnavailableError(status_.ok() ? "the daemon cannot be reached"
                                                                 : status_.error_message()),
                             ""),
          ended);
    } else if (resumed == Session::Resumed::kYes) {
      DropServed(last_sequence, ended);
      Rewind();
      if (!items_.empty()) OpenStream();
    }
  }
  room_.notify_all();
  Finish(ended);
  MutexLock lock(mutex_);
  if (stream_ != nullptr) {
    if (closing_ || paused_) BreakStream();
    return;
  }
  const bool stop = closing_ || paused_;
  if (!stop && !items_.empty()) return OpenStream();  // they were pushed meanwhile
  open_ = false;
  if (stop) ShutDownQueue();
}

// Called about once a second while nothing happens.
void Pipeline::OnSilence() {
  uint64_t running = 0;
  Ended ended;
  {
    MutexLock lock(mutex_);
    if (!open_ || items_.empty()) return;
    const auto waited = Clock::now() - front_since_;
    const auto timeout = absl::ToChronoMilliseconds(session_.options().timeout);
    if (waited < timeout) return;
    if (!deadline_passed_) {
      deadline_passed_ = true;
      if (items_.front()->request.has_execute())
        running = items_.front()->request.execute().request_id();
    } else if (waited > timeout + kGrace) {
      FailAll(absl::DeadlineExceededError("the daemon does not answer"), ended);
      area_ = nullptr;  // the daemon may still copy
      BreakStream();
    }
  }
  if (running != 0) CancelOnDaemon(running);
  room_.notify_all();
  Finish(ended);
}

}  // namespace uopd::client
