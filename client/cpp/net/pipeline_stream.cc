// SPDX-License-Identifier: MIT
// The stream: its events, what is written to it, and what follows when it ends.
#include "client/cpp/net/pipeline.h"

#include <optional>
#include <random>

#include "client/cpp/net/grpc_status.h"

namespace uopd::client {

void Pipeline::OpenStream() {
  open_ = true;
  started_ = writing_ = reading_ = broken_ = finishing_ = false;
  context_ = std::make_unique<grpc::ClientContext>();
  session_.AddCredentials(*context_);
  stream_ = session_.stub()->PrepareAsyncPipeline(context_.get(), queue_.get());
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

namespace {

void SetSession(v1::PipelineRequest& request, const std::string& id) {
  if (request.has_execute()) request.mutable_execute()->set_session_id(id);
  if (request.has_repeat()) request.mutable_repeat()->mutable_execute()->set_session_id(id);
  if (request.has_upload()) request.mutable_upload()->set_session_id(id);
  if (request.has_download()) request.mutable_download()->set_session_id(id);
  if (request.has_free_buffers()) request.mutable_free_buffers()->set_session_id(id);
}

}  // namespace

void Pipeline::WriteNext() {
  if (!started_ || writing_ || broken_ || next_ == items_.size()) return;
  Item& item = *items_[next_];
  if (!Complete(item)) return;
  ++next_;
  writing_ = true;
  item.sequence = item.sent_as = ++sequence_;
  item.request.set_sequence(item.sequence);
  item.request.set_epoch(epoch_);
  SetSession(item.request, session_id_);
  stream_->Write(item.request, AsTag(kWritten));  // the message is copied
  sent_(item, item.request.ByteSizeLong());
  if (item.request.has_upload() && item.payload != nullptr) {
    item.request.mutable_upload()->mutable_data()->swap(data_);
    item.request.mutable_upload()->clear_data();
  }
}

void Pipeline::Rewind() {
  for (auto& item : items_) item->sequence = 0;
  next_ = 0;
  ++epoch_;
}

bool Pipeline::ContinueSession(Ended& ended) {
  bool reconnects = false;
  {
    MutexLock lock(mutex_);
    if (IsLeaving(status_)) {
      said_ = FromGrpc(status_);
      leaving_ = true;
    }
    reconnects = leaving_;
  }
  if (reconnects) session_.Reconnect();
  const Session::Resumption resumption = session_.Resume();
  using enum Session::Resumed;
  absl::Status why = resumption.why;
  std::optional<Session::Opened> another;
  if (resumption.resumed == kGone) {
    auto opened = session_.OpenAnother();
    why = opened.status();
    if (opened.ok()) another = *std::move(opened);
  }
  const bool ready = resumption.resumed == kYes || another;
  MutexLock lock(mutex_);
  if (another) {
    session_id_ = session_.id();
    DropLost(another->lost, ended);
  }
  if (closing_ || paused_) return false;
  if (++tries_ >= MostTries()) {
    tries_ = 0;
    if (absl::IsUnavailable(why) || absl::IsCancelled(why) || why.ok()) {
      const std::string text = !said_.ok()    ? std::string(said_.message())
                               : status_.ok() ? "the daemon cannot be reached"
                                              : status_.error_message();
      why = session_.Explained(absl::UnavailableError(text), "");
    }
    said_ = absl::OkStatus();
    leaving_ = false;
    FailAll(why, ended);
    return false;
  }
  if (!ready) return true;
  if (!another) DropServed(resumption.last_sequence, ended);
  Rewind();
  if (!items_.empty()) OpenStream();
  return false;
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
    resume = ContinueSession(ended);
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

}  // namespace uopd::client
