// SPDX-License-Identifier: MIT
// What a stream of calls does next: a state machine that knows neither gRPC nor the calls.
//
//   read --> waiting_ --> served --> answers_ --> written
//
// Three things go on at the same time, each one message at a time: reading, serving (in order) and
// writing. Each event (OnReadDone, OnServed, OnWriteDone, Close) changes the state and decides what
// starts next in one critical section, so that no other thread can end the stream between the two.
// Whoever got something to do from that decision does it without the lock; what it does keeps the
// stream from ending. Calls that are served at once are served in a loop, not by recursion.
//
// Reading stops while the messages that wait hold max_bytes, and serving while the answers that the
// client has not read do: a stream holds at most 2 * max_bytes, a request and an answer.
//
// The stream ends once: when the client has said its last and every answer is written, when it
// breaks and nothing goes on any more, or after Close when nothing but a read goes on.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "core/base/mutex.h"

namespace uopd::net {

// Request and Answer are movable, and bytes() says how much memory one holds. A test puts its own
// lock in, to have other threads run at the worst moments.
template <class Request, class Answer, class Lock = MutexLock>
class StreamFlow {
 public:
  explicit StreamFlow(size_t max_bytes) : max_bytes_(max_bytes) {}
  StreamFlow(const StreamFlow&) = delete;
  StreamFlow& operator=(const StreamFlow&) = delete;

  // The events. None may be followed by a use of *this by the same thread, unless the caller keeps
  // it alive.
  void Begin() {
    Go([] {});
  }
  // `request` is what was read if ok; false: the client has said its last, or the stream is broken.
  void OnReadDone(bool ok, Request request) {
    Go([&]() UOPD_REQUIRES(mu_) {
      reading_ = false;
      if (!ok) {
        last_read_ = true;
      } else if (!ended_) {
        waiting_bytes_ += request.bytes();
        waiting_.push_back(std::move(request));
      }
    });
  }
  // The answer to the request of which Serve said that it is served later.
  void OnServed(Answer answer) {
    Go([&]() UOPD_REQUIRES(mu_) { Served(std::move(answer)); });
  }
  // False: the stream is broken.
  void OnWriteDone(bool ok) {
    Answer written;  // its end may be long: not under the lock
    Go([&]() UOPD_REQUIRES(mu_) {
      writing_ = false;
      answer_bytes_ -= answers_.front().bytes();
      written = std::move(answers_.front());
      answers_.pop_front();
      if (!ok) broken_ = true;
    });
  }
  // No client should be waited for any more: ends as soon as nothing but a read goes on.
  void Close() {
    Go([&]() UOPD_REQUIRES(mu_) { closing_ = true; });
  }

  // True while an answer is being written.
  bool writing() const {
    Lock lock(mu_);
    return writing_;
  }

 protected:
  ~StreamFlow() = default;

 private:
  // The work. Each of the first three is followed by its event, from any thread, perhaps before the
  // function returns.
  virtual void StartRead() = 0;
  virtual void StartWrite(const Answer& answer) = 0;  // stays where it is until OnWriteDone
  // An answer; nullopt: OnServed brings it.
  virtual std::optional<Answer> Serve(Request& request) = 0;
  // Nothing else is called after it. *this may be gone when it returns.
  virtual void End() = 0;

  struct Step {
    bool read = false, serve = false, end = false;
    const Answer* write = nullptr;
  };

  template <class Change>
  void Go(Change change) {
    Step step;
    {
      Lock lock(mu_);
      change();
      step = Next();
    }
    for (;;) {
      if (step.end) return End();
      if (step.read) StartRead();
      if (step.write != nullptr) StartWrite(*step.write);
      if (!step.serve) return;  // *this may be gone
      std::optional<Answer> answer = Serve(current_);
      if (!answer) return;  // *this may be gone
      Lock lock(mu_);
      Served(*std::move(answer));
      step = Next();
    }
  }

  void Served(Answer answer) UOPD_REQUIRES(mu_) {
    serving_ = false;
    if (broken_) return;
    answer_bytes_ += answer.bytes();
    answers_.push_back(std::move(answer));
  }

  // Marks what the caller has to start as going on.
  Step Next() UOPD_REQUIRES(mu_) {
    Step out;
    if (ended_) return out;
    if (broken_) {
      waiting_.clear();
      waiting_bytes_ = 0;
    }
    if (!serving_ && !waiting_.empty() && answer_bytes_ < max_bytes_) {
      waiting_bytes_ -= waiting_.front().bytes();
      current_ = std::move(waiting_.front());
      waiting_.pop_front();
      serving_ = out.serve = true;
    }
    const bool reads = !reading_ && !last_read_ && !broken_ && !closing_;
    if (reads && waiting_bytes_ < max_bytes_ && answer_bytes_ < max_bytes_) {
      reading_ = out.read = true;
    }
    if (!writing_ && !answers_.empty() && !broken_) {
      writing_ = true;
      out.write = &answers_.front();
    }
    const bool idle = !serving_ && !writing_ && waiting_.empty();
    const bool finished = broken_ || last_read_ || closing_;
    if (idle && finished && (broken_ || answers_.empty()) && (!reading_ || closing_)) {
      ended_ = out.end = true;
    }
    return out;
  }

  const size_t max_bytes_;
  Request current_;  // of whoever serves

  mutable Mutex mu_;
  bool reading_ UOPD_GUARDED_BY(mu_) = false;
  bool serving_ UOPD_GUARDED_BY(mu_) = false;
  bool writing_ UOPD_GUARDED_BY(mu_) = false;
  bool last_read_ UOPD_GUARDED_BY(mu_) = false;
  bool broken_ UOPD_GUARDED_BY(mu_) = false;
  bool closing_ UOPD_GUARDED_BY(mu_) = false;
  bool ended_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Request> waiting_ UOPD_GUARDED_BY(mu_);
  std::deque<Answer> answers_ UOPD_GUARDED_BY(mu_);  // the front one is being written
  size_t waiting_bytes_ UOPD_GUARDED_BY(mu_) = 0;
  size_t answer_bytes_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::net
