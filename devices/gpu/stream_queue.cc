// SPDX-License-Identifier: MIT
#include "devices/gpu/stream_queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "devices/api/host/queue_threads.h"
#include "devices/gpu/gpu_semaphore.h"

namespace uopd::devices::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// The pause before the next question: an eighth of the time waited so far, so that asking costs
// little and the answer is at most that much late.
void PauseAfter(Clock::duration waited) {
  constexpr std::chrono::microseconds kSpin(20), kLongest(500), kLongestOfHanging(10'000);
  constexpr std::chrono::seconds kHanging(10);
  if (waited < kSpin) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(
        std::min<Clock::duration>(waited / 8, waited < kHanging ? kLongest : kLongestOfHanging));
  }
}

// How long work behind a failed semaphore may stay on the chip before the host gives it up. A chip
// that still works passes the wait at once: the event comes before the failure.
constexpr std::chrono::milliseconds kPatience(100);

// A wait on the chip for another device, while it lasts.
class WaitElsewhere {
 public:
  explicit WaitElsewhere(std::shared_ptr<GpuContext> context) : context_(std::move(context)) {
    context_->AddWaitElsewhere(1);
  }
  ~WaitElsewhere() { context_->AddWaitElsewhere(-1); }
  WaitElsewhere(const WaitElsewhere&) = delete;
  WaitElsewhere& operator=(const WaitElsewhere&) = delete;

 private:
  const std::shared_ptr<GpuContext> context_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<StreamQueue>> StreamQueue::Create(
    std::shared_ptr<GpuContext> context) {
  UOPD_ASSIGN(StreamHandle native, context->NewStream());
  return std::shared_ptr<StreamQueue>(new StreamQueue(std::move(context), native));
}

StreamQueue::~StreamQueue() {
  MutexLock lock(mu_);
  if (native_ != nullptr) context_->DestroyStream(native_);
}

void StreamQueue::Push(Work work) { Append({.kind = Item::kWork, .work = std::move(work)}); }

void StreamQueue::PushWait(TimePoint until) {
  Append({.kind = Item::kWait, .point = std::move(until)});
}

void StreamQueue::PushRecord(TimePoint point) {
  Append({.kind = Item::kRecord, .point = std::move(point)});
}

void StreamQueue::PushDrop(std::shared_ptr<const void> object) {
  Append({.kind = Item::kDrop, .object = std::move(object)});
}

void StreamQueue::Append(Item item) {
  {
    MutexLock lock(mu_);
    queued_.push_back(std::move(item));
  }
  Submit();
  MutexLock lock(mu_);
  if (!flight_.empty() || !landed_.empty()) NeedThread();
}

void StreamQueue::Submit() {
  for (;;) {
    std::shared_ptr<Semaphore> semaphore;
    uint64_t value = 0;
    {
      MutexLock lock(mu_);
      for (; !Stuck() && semaphore == nullptr; queued_.pop_front()) {
        Item& item = queued_.front();
        if (submit_status_.ok()) {
          item.failure = SubmitOne(item);
          if (!item.failure.ok()) submit_status_ = item.failure;
        }
        if (item.kind == Item::kWait && !item.submitted && submit_status_.ok()) {
          // Set before ReachedOr is called: the signal may come before ReachedOr returns.
          blocked_ = true;
          semaphore = std::move(item.point.semaphore);
          value = item.point.value;
        } else {
          if (item.writes_host) ++host_writes_;
          if (item.staged) ++staged_;
          flight_.push_back(std::move(item));
        }
      }
      if (semaphore == nullptr) return;
    }
    Semaphore& waited = *semaphore;
    if (!waited.ReachedOr(value, [self = shared_from_this()](const absl::Status& reached) {
          self->Unblock(reached);
        })) {
      return;  // the semaphore is not kept: the queue must see that it is destroyed
    }
    MutexLock lock(mu_);
    blocked_ = false;
  }
}

absl::Status StreamQueue::SubmitOne(Item& item) {
  if (item.kind == Item::kDrop) return absl::OkStatus();
  if (!context_->Enter()) return context_->status();
  if (native_ == nullptr) {
    UOPD_ASSIGN(native_, context_->NewStream());
  }
  switch (item.kind) {
    case Item::kWork:
      item.submitted = true;  // also part of it
      item.writes_host = item.work.writes_host;
      item.staged = item.work.staged;
      UOPD_TRY(item.work.submit(native_));
      if (item.staged) {
        UOPD_ASSIGN(item.event, GpuEvent::Record(context_, native_, false));
      }
      return absl::OkStatus();
    case Item::kRecord: {
      UOPD_ASSIGN(item.event, GpuEvent::Record(context_, native_, false));
      item.submitted = true;
      if (auto* own = GpuSemaphore::Of(*item.point.semaphore, context_->driver())) {
        own->Promise(item.point.value, {item.event, host_writes_ > 0});
      }
      return absl::OkStatus();
    }
    case Item::kWait: {
      auto* own = GpuSemaphore::Of(*item.point.semaphore, context_->driver());
      if (own == nullptr) return absl::OkStatus();
      const GpuSemaphore::Promised promised = own->PromiseOf(item.point.value);
      if (promised.event == nullptr || promised.event->context().lost()) return absl::OkStatus();
      UOPD_TRY(MarkEnd());  // what is ahead lands also if the wait does not end
      item.submitted = true;
      item.writes_host = promised.writes_host;
      if (&promised.event->context() != context_.get()) {
        item.object = std::make_shared<WaitElsewhere>(context_);
      }
      return context_->Check(context_->api().StreamWaitEvent(native_, promised.event->handle(), 0));
    }
    case Item::kDrop:
      break;
  }
  return absl::OkStatus();
}

absl::Status StreamQueue::MarkEnd() {
  const auto last = std::find_if(flight_.rbegin(), flight_.rend(),
                                 [](const Item& i) { return i.submitted || i.event != nullptr; });
  if (last == flight_.rend() || last->event != nullptr) return absl::OkStatus();
  UOPD_ASSIGN(flight_.back().event, GpuEvent::Record(context_, native_, false));
  return absl::OkStatus();
}

void StreamQueue::Uncount(bool writes_host, bool staged) {
  if (writes_host) --host_writes_;
  if (staged) --staged_;
}

void StreamQueue::Unblock(const absl::Status& reached) {
  MutexLock lock(mu_);
  blocked_ = false;
  if (!reached.ok()) {
    if (submit_status_.ok()) submit_status_ = reached;
    flight_.push_back({.kind = Item::kWork, .failure = reached});
  }
  changed_.notify_all();
  NeedThread();
}

void StreamQueue::Unhold(const absl::Status& reached, bool writes_host) {
  MutexLock lock(mu_);
  held_ = false;
  Uncount(writes_host, false);
  if (status_.ok()) status_ = reached;
  if (submit_status_.ok()) submit_status_ = reached;
  changed_.notify_all();
  NeedThread();
}

void StreamQueue::NeedThread() {
  if (has_thread_) return;
  has_thread_ = true;
  RunOnQueueThread([self = shared_from_this()] { self->Run(); });
}

void StreamQueue::Run() {
  Clock::time_point since = Clock::now();
  std::optional<Clock::time_point> in_vain_since;
  for (;;) {
    Submit();
    Land();
    bool wait = false, in_vain = false;
    {
      MutexLock lock(mu_);
      if (!held_ && !flight_.empty()) {
        wait = !Collect();
        in_vain = wait && WaitsInVain();
      } else if ((held_ || landed_.empty()) && Stuck()) {
        has_thread_ = false;
        return;
      }
    }
    const Clock::time_point now = Clock::now();
    if (!in_vain) {
      in_vain_since.reset();
    } else if (!in_vain_since) {
      in_vain_since = now;
    } else if (now - *in_vain_since > kPatience) {
      GiveUp();
      wait = false;
    }
    if (wait) {
      PauseAfter(now - since);
    } else {
      since = now;
    }
  }
}

bool StreamQueue::Collect() {
  const bool entered = context_->Enter();
  // Up to the last item that needs no more than is done already.
  size_t done = 0;
  bool open = false;  // an item without an event is before
  for (size_t i = 0; i < flight_.size(); ++i) {
    const Item& item = flight_[i];
    if (entered && item.event != nullptr) {
      if (!item.event->Reached()) break;
      open = false;
    } else if (entered && item.submitted) {
      open = true;
    }
    if (!open) done = i + 1;
  }
  if (done == 0 &&
      std::ranges::none_of(flight_, [](const Item& i) { return i.event != nullptr; })) {
    auto event = GpuEvent::Record(context_, native_, false);
    if (event.ok()) {
      flight_.back().event = *std::move(event);
    } else {
      context_->Lose(absl::UnavailableError(event.status().message()));
    }
  }
  for (; done > 0; --done) {
    landed_.push_back(std::move(flight_.front()));
    flight_.pop_front();
  }
  return !landed_.empty();
}

bool StreamQueue::WaitsInVain() const {
  const Item& first = flight_.front();
  return first.kind == Item::kWait && first.submitted && !first.point.semaphore->failure().ok();
}

void StreamQueue::GiveUp() {
  std::vector<std::function<void()>> abandons;
  std::shared_ptr<StreamQueue> keeper;
  {
    MutexLock lock(mu_);
    const absl::Status why = flight_.front().point.semaphore->failure();
    keeper.reset(new StreamQueue(context_, std::exchange(native_, nullptr)));
    if (submit_status_.ok()) submit_status_ = why;
    MutexLock keepers(keeper->mu_);
    for (Item& item : std::exchange(flight_, {})) {
      landed_.push_back({.kind = item.kind == Item::kRecord ? Item::kRecord : Item::kWork,
                         .point = {},
                         .failure = why,
                         .writes_host = item.writes_host,
                         .staged = item.staged});
      if (item.kind == Item::kRecord) landed_.back().point = std::move(item.point);
      if (item.kind == Item::kWait) item.object = nullptr;
      if (item.work.abandon != nullptr) abandons.push_back(std::move(item.work.abandon));
      item.kind = Item::kDrop;
      item.writes_host = item.staged = false;
      keeper->flight_.push_back(std::move(item));
    }
  }
  for (const auto& abandon : abandons) abandon();
  MutexLock lock(keeper->mu_);
  keeper->NeedThread();
}

void StreamQueue::Land() {
  for (;;) {
    Item item;
    absl::Status before;
    bool waits = false;
    {
      MutexLock lock(mu_);
      if (held_ || landing_ || landed_.empty()) return;
      item = std::move(landed_.front());
      landed_.pop_front();
      landing_ = true;
      before = status_;
      waits = held_ = item.kind == Item::kWait && before.ok() && item.failure.ok();
    }
    if (waits) {
      const TimePoint point = std::move(item.point);
      const bool writes_host = item.writes_host;
      const bool reached = point.semaphore->ReachedOr(
          point.value, [self = shared_from_this(), writes_host](const absl::Status& status) {
            self->Unhold(status, writes_host);
          });
      MutexLock lock(mu_);
      landing_ = false;
      if (reached) {
        held_ = false;
        Uncount(writes_host, false);
      }
      changed_.notify_all();
      continue;
    }
    const absl::Status status = LandOne(item, before);
    const bool writes_host = item.writes_host, staged = item.staged;
    item = {};  // drops references to buffers before another thread can see the queue empty
    MutexLock lock(mu_);
    landing_ = false;
    Uncount(writes_host, staged);
    if (status_.ok()) status_ = status;
    if (submit_status_.ok()) submit_status_ = status;
    changed_.notify_all();
  }
}

absl::Status StreamQueue::LandOne(Item& item, const absl::Status& before) {
  absl::Status status = before;
  if (status.ok() && item.kind != Item::kDrop) {
    status = item.failure;
    // A lost context explains everything that it made fail.
    if (item.submitted && context_->lost()) status = context_->status();
  }
  switch (item.kind) {
    case Item::kRecord:
      if (status.ok()) {
        item.point.semaphore->Signal(item.point.value);
      } else {
        item.point.semaphore->Fail(status);
      }
      break;
    case Item::kWork:
      if (status.ok() && item.work.land != nullptr) {
        status = context_->Enter() ? item.work.land() : context_->status();
      }
      break;
    case Item::kWait:
    case Item::kDrop:
      break;
  }
  return status;
}

absl::Status StreamQueue::Synchronize() {
  Submit();
  MutexLock lock(mu_);
  if (!flight_.empty() || !landed_.empty()) NeedThread();
  lock.Wait(changed_, [&]() UOPD_REQUIRES(mu_) { return Empty(); });
  submit_status_ = absl::OkStatus();
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace uopd::devices::gpu
