// SPDX-License-Identifier: MIT
// Decides what a stream of calls does next. It is a state machine that knows neither gRPC nor the
// calls.
//
//   read --> waiting_ --> served --> answers_ --> written
//
// Three activities run at the same time, each with one message at a time: reading, serving (in
// order) and writing. Each event (OnReadDone, OnServed, OnWriteDone, Close) changes the state and
// decides in the same critical section what starts next. So no other thread can end the stream
// between the two. The thread of the event then starts this work without the lock. The work keeps
// the stream from ending. Calls that are served at once are served in a loop, not by recursion.
//
// A request may have several answers: it is served again as long as its latest answer says that
// more follow.
//
// Reading pauses while the waiting messages hold max_bytes. Serving pauses while the unread answers
// hold max_bytes. So a stream holds at most 2 * max_bytes, one request and one answer.
//
// The stream ends once, in one of these cases: the client has sent its last message and every
// answer is written; the stream is broken and no activity runs; Close was called and at most a read
// runs.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "core/base/mutex.h"

namespace uopd::net {

// Request and Answer are movable; bytes() returns how much memory one holds. Answer::more says
// whether another answer to the same request follows. A test gives its own Lock, to let other
// threads run at the worst moments.
template <class Request, class Answer, class Lock = MutexLock>
class StreamFlow {
 public:
  explicit StreamFlow(size_t max_bytes) : max_bytes_(max_bytes) {}
  StreamFlow(const StreamFlow&) = delete;
  StreamFlow& operator=(const StreamFlow&) = delete;

  // The events. After an event the calling thread may not use *this, unless it keeps *this alive.
  void Begin() {
    Go([] {});
  }
  // `request` is the message that was read, if ok. Not ok: the client has sent its last message, or
  // the stream is broken.
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
  // The answer to the request for which Serve returned nullopt.
  void OnServed(Answer answer) {
    Go([&]() UOPD_REQUIRES(mu_) { Served(std::move(answer)); });
  }
  // Not ok: the stream is broken.
  void OnWriteDone(bool ok) {
    Answer written;  // destroyed without the lock, since this may take long
    Go([&]() UOPD_REQUIRES(mu_) {
      writing_ = false;
      answer_bytes_ -= answers_.front().bytes();
      written = std::move(answers_.front());
      answers_.pop_front();
      if (!ok) broken_ = true;
    });
  }
  // No client should be waited for any more. The stream ends as soon as at most a read runs.
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
  // The work of the derived class. Each of the first three functions causes its event, on any
  // thread, perhaps before the function returns.
  virtual void StartRead() = 0;
  virtual void StartWrite(const Answer& answer) = 0;  // stays valid until OnWriteDone
  // Returns the answer. nullopt: OnServed brings the answer later. A request that has several
  // answers is given again for each.
  virtual std::optional<Answer> Serve(Request& request) = 0;
  // The last function that is called. *this may be destroyed when it returns.
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
      if (!step.serve) return;  // *this may be destroyed
      std::optional<Answer> answer = Serve(current_);
      if (!answer) return;  // *this may be destroyed
      Lock lock(mu_);
      Served(*std::move(answer));
      step = Next();
    }
  }

  void Served(Answer answer) UOPD_REQUIRES(mu_) {
    serving_ = false;
    if (broken_) return;
    again_ = answer.more;
    answer_bytes_ += answer.bytes();
    answers_.push_back(std::move(answer));
  }

  // Decides what the caller has to start, and marks it as running.
  Step Next() UOPD_REQUIRES(mu_) {
    Step out;
    if (ended_) return out;
    if (broken_) {
      waiting_.clear();
      waiting_bytes_ = 0;
      again_ = false;
    }
    if (!serving_ && (again_ || !waiting_.empty()) && answer_bytes_ < max_bytes_) {
      if (!again_) {
        waiting_bytes_ -= waiting_.front().bytes();
        current_ = std::move(waiting_.front());
        waiting_.pop_front();
      }
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
    const bool idle = !serving_ && !writing_ && !again_ && waiting_.empty();
    const bool finished = broken_ || last_read_ || closing_;
    if (idle && finished && (broken_ || answers_.empty()) && (!reading_ || closing_)) {
      ended_ = out.end = true;
    }
    return out;
  }

  const size_t max_bytes_;
  Request current_;  // used by the activity that serves

  mutable Mutex mu_;
  bool reading_ UOPD_GUARDED_BY(mu_) = false;
  bool serving_ UOPD_GUARDED_BY(mu_) = false;
  bool again_ UOPD_GUARDED_BY(mu_) = false;  // current_ has another answer
  bool writing_ UOPD_GUARDED_BY(mu_) = false;
  bool last_read_ UOPD_GUARDED_BY(mu_) = false;
  bool broken_ UOPD_GUARDED_BY(mu_) = false;
  bool closing_ UOPD_GUARDED_BY(mu_) = false;
  bool ended_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Request> waiting_ UOPD_GUARDED_BY(mu_);
  std::deque<Answer> answers_ UOPD_GUARDED_BY(mu_);  // the first one is being written
  size_t waiting_bytes_ UOPD_GUARDED_BY(mu_) = 0;
  size_t answer_bytes_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::net
