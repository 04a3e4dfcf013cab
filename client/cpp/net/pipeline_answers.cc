// SPDX-License-Identifier: MIT
// What an answer means for its call and for those behind it. So does no answer: silence.
#include "client/cpp/net/pipeline.h"

#include <algorithm>
#include <utility>

#include "client/cpp/net/grpc_status.h"

namespace uopd::client {
namespace {

constexpr size_t kMostMissing = 1 << 16;
constexpr auto kGrace = std::chrono::seconds(10);  // for the answer to a call that was cancelled

absl::Status StatusOf(const v1::PipelineResponse& response) {
  const auto code = static_cast<absl::StatusCode>(response.code());
  if (!response.has_node_error()) return absl::Status(code, response.message());
  return WithNodeOf(code, response.message(), response.node_error());
}

}  // namespace

void Pipeline::OnResponse() {
  std::unique_ptr<Item> answered;
  std::shared_ptr<const std::function<void(v1::PipelineResponse&)>> step;
  Ended ended;
  {
    MutexLock lock(mutex_);
    // Answers come in order. An answer to a call that was sent again, or ended here, is ignored.
    if (items_.empty() || items_.front()->sequence != incoming_.sequence()) return;
    if (incoming_.code() == 0) {
      tries_ = 0;
      said_ = absl::OkStatus();
      leaving_ = false;
      Item& item = *items_.front();
      if (incoming_.more() && item.request.has_repeat() &&
          item.request.repeat().skip() + 1 < item.request.repeat().steps()) {
        // If the call is sent again, it goes on behind this step.
        item.request.mutable_repeat()->set_skip(item.request.repeat().skip() + 1);
        front_since_ = Clock::now();
        step = item.step;
      } else {
        answered = PopFront();
      }
    } else {
      OnFailure(incoming_, ended);
    }
  }
  if (step != nullptr) (*step)(incoming_);
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
    item.execute()->set_graph(*item.graph);
    item.GiveIds(numbers_);
    Rewind();
    return;
  }
  if (!item.cancelled && kind == "area" && area_ != nullptr) {
    area_ = nullptr;  // data travel in messages
    Rewind();
    return;
  }
  if (absl::IsUnavailable(status)) said_ = status;
  if (response.retry_after_ms() != 0) leaving_ = true;
  const bool lost = kind == "session" || absl::IsUnavailable(status);
  if (!item.cancelled && lost && tries_ + 1 < MostTries()) {
    // The session is resumed when the stream has ended. The daemon leaves the stream open, so it
    // must be ended here, also if a message is still being written.
    broken_ = true;
    BreakStream();
    return;
  }
  tries_ = 0;
  if (deadline_passed_ && !item.cancelled) {
    FailFront(absl::DeadlineExceededError("the call took longer than the connection's timeout"),
              ended);
  } else {
    const bool ours = kind == "buffer" && item.execute() != nullptr;
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
    const bool again = item->execute() != nullptr || item->request.has_download();
    if (again || item->sent_as == 0 || item->sent_as > last_sequence) {
      left.push_back(std::move(item));
      continue;
    }
    Uncount(*item);
    ended.emplace_back(std::move(item), absl::OkStatus());
  }
  items_ = std::move(left);
}

void Pipeline::DropLost(const absl::Status& lost, Ended& ended) {
  lost_ = lost;
  lost_below_ = numbers_.NewHandle();
  made_again_.clear();
  std::deque<std::unique_ptr<Item>> left;
  for (auto& item : items_) {
    absl::Status why = CheckUses(*item);
    if (item->cancelled) why = absl::CancelledError("cancelled by the client");
    if (why.ok()) {
      left.push_back(std::move(item));
      continue;
    }
    for (uint64_t handle : item->makes) missing_.insert_or_assign(handle, why);
    Uncount(*item);
    ended.emplace_back(std::move(item), why);
  }
  items_ = std::move(left);
}

// Called about once a second while nothing happens.
void Pipeline::OnSilence() {
  RequestIds running;
  Ended ended;
  {
    MutexLock lock(mutex_);
    if (!open_ || items_.empty()) return;
    const auto waited = Clock::now() - front_since_;
    const auto timeout = absl::ToChronoMilliseconds(session_.options().timeout);
    if (waited < timeout) return;
    if (!deadline_passed_) {
      deadline_passed_ = true;
      if (items_.front()->execute() != nullptr) running = items_.front()->ids();
    } else if (waited > timeout + kGrace) {
      FailAll(absl::DeadlineExceededError("the daemon does not answer"), ended);
      area_ = nullptr;  // the daemon may still copy
      BreakStream();
    }
  }
  if (running.first != 0) CancelOnDaemon(running);
  room_.notify_all();
  Finish(ended);
}

}  // namespace uopd::client
