// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "devices/opencl/opencl_error.h"
#include "devices/opencl/opencl_symbols.h"

namespace uopd::devices::opencl {

absl::StatusOr<StopWords> StopWords::Make(std::shared_ptr<OpenClContext> context, ClQueue* queue) {
  constexpr size_t kBytes = 2 * kApart * sizeof(int32_t);
  const OpenClApi& api = context->api();
  const bool fine = (context->Number(kClDeviceSvmCapabilities) & kClSvmFineGrainBuffer) != 0;
  void* data = api.clSVMAlloc(context->context(),
                              kClMemReadWrite | (fine ? kClMemSvmFineGrainBuffer : 0), kBytes, 0);
  if (data == nullptr) {
    return absl::ResourceExhaustedError("The OpenCL driver has no memory for a stop word");
  }
  StopWords out(context, static_cast<int32_t*>(data), fine);
  if (fine) {
    std::fill_n(out.words_, 2 * kApart, 0);
    return out;
  }
  const int32_t zero = 0;
  UOPD_TRY(context->Check(
      "clEnqueueSVMMemFill",
      api.clEnqueueSVMMemFill(queue, data, &zero, sizeof zero, kBytes, 0, nullptr, nullptr)));
  UOPD_TRY(context->Check("clFinish", api.clFinish(queue)));
  return out;
}

StopWords::~StopWords() {
  if (words_ != nullptr) context_->api().clSVMFree(context_->context(), words_);
}

void StopWords::Set(bool stop) {
  if (!reachable_) return;
  std::atomic_ref<int32_t>(words_[kApart]).store(stop ? 1 : 0, std::memory_order_relaxed);
}

namespace {

struct EventDone {
  Mutex mu;
  std::condition_variable changed;
  bool done UOPD_GUARDED_BY(mu) = false;
};

// Runs on a thread of the driver, perhaps after the wait has ended.
void OnEvent(ClEvent*, ClInt, void* user) {
  std::unique_ptr<std::shared_ptr<EventDone>> state(static_cast<std::shared_ptr<EventDone>*>(user));
  MutexLock lock((*state)->mu);
  (*state)->done = true;
  (*state)->changed.notify_all();
}

bool Ended(const OpenClApi& api, ClEvent* event) {
  ClInt status = kClComplete;
  const ClInt code = api.clGetEventInfo(event, kClEventStatus, sizeof status, &status, nullptr);
  return code != kClSuccess || status <= kClComplete;
}

// Returns when the command of `event` is done or has failed, or when the driver cannot tell. About
// every millisecond it calls `meanwhile`. The driver's callback ends the wait; the status is also
// polled, so a driver that never calls back does not hang this thread.
void AwaitEvent(const OpenClApi& api, ClEvent* event, const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds kTick(1);
  if (Ended(api, event)) return;
  auto state = std::make_shared<EventDone>();
  auto* const user = new std::shared_ptr<EventDone>(state);  // OnEvent deletes it
  if (api.clSetEventCallback(event, kClComplete, OnEvent, user) != kClSuccess) delete user;
  for (bool ended = false; !ended;) {
    meanwhile();
    {
      MutexLock lock(state->mu);
      ended = lock.WaitUntil(state->changed, std::chrono::steady_clock::now() + kTick,
                             [&]() UOPD_REQUIRES(state->mu) { return state->done; });
    }
    ended = ended || Ended(api, event);
  }
}

// Commands of a batch. More would keep their buffers for long.
constexpr size_t kMostCommands = 256;

absl::Status IsStopped(const std::string& what) {
  return absl::CancelledError(absl::StrCat(what, " is stopped"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<OpenClWork>> OpenClWork::Make(
    std::shared_ptr<OpenClContext> context) {
  UOPD_ASSIGN(ClQueue* const queue, context->NewQueue());
  auto words = StopWords::Make(context, queue);
  if (!words.ok()) {
    context->api().clReleaseCommandQueue(queue);
    return words.status();
  }
  return std::shared_ptr<OpenClWork>(new OpenClWork(std::move(context), queue, *std::move(words)));
}

OpenClWork::~OpenClWork() {
  Finish().IgnoreError();
  context_->api().clReleaseCommandQueue(queue_);
}

absl::Status OpenClWork::Copy(void* to, const void* from, size_t bytes, std::vector<Keeper> keep) {
  UOPD_TRY(Prepare(nullptr, "A copy"));
  return Add("A copy", std::move(keep), [&](ClEvent** event) {
    return context_->Check(
        "clEnqueueSVMMemcpy",
        context_->api().clEnqueueSVMMemcpy(queue_, 0, to, from, bytes, 0, nullptr, event));
  });
}

absl::Status OpenClWork::Fill(void* to, size_t bytes, std::byte value, Keeper keep) {
  UOPD_TRY(Prepare(nullptr, "A fill"));
  return Add("A fill", {std::move(keep)}, [&](ClEvent** event) {
    return context_->Check(
        "clEnqueueSVMMemFill",
        context_->api().clEnqueueSVMMemFill(queue_, to, &value, 1, bytes, 0, nullptr, event));
  });
}

absl::Status OpenClWork::Run(const Launch& launch) {
  const std::string what = absl::StrCat("Kernel ", launch.executable->entry());
  UOPD_TRY(Prepare(launch.maybe_stop, what));
  const int32_t* word = launch.maybe_stop != nullptr ? words_.word() : words_.never();
  std::vector<Keeper> keep = launch.buffers;
  keep.push_back(launch.executable);
  UOPD_TRY(Add(what, std::move(keep), [&](ClEvent** event) {
    return launch.executable->Enqueue(queue_, launch.shape, launch.pointers, launch.vars, word,
                                      event);
  }));
  commands_.back().maybe_duration_ns = launch.maybe_duration_ns;
  return absl::OkStatus();
}

void OpenClWork::Drop(Keeper object) {
  if (!commands_.empty()) kept_.push_back(std::move(object));
}

absl::Status OpenClWork::Prepare(const std::shared_ptr<const StopFlag>& stop,
                                 const std::string& what) {
  if ((stop_ != nullptr && stop != stop_) || commands_.size() >= kMostCommands) UOPD_TRY(Finish());
  if (stop == nullptr) return absl::OkStatus();
  if (stop->stopped()) return Fail(IsStopped(what));
  stop_ = stop;
  return absl::OkStatus();
}

absl::Status OpenClWork::Fail(absl::Status status) {
  absl::Status before = Finish();
  return before.ok() ? status : before;
}

absl::Status OpenClWork::Add(std::string what, std::vector<Keeper> keep,
                             const std::function<absl::Status(ClEvent** event)>& enqueue) {
  Command command{.what = std::move(what)};
  if (absl::Status status = enqueue(&command.event); !status.ok()) return Fail(std::move(status));
  commands_.push_back(std::move(command));
  kept_.insert(kept_.end(), std::make_move_iterator(keep.begin()),
               std::make_move_iterator(keep.end()));
  // Without it a driver may keep the command until somebody waits.
  if (absl::Status status = context_->Check("clFlush", context_->api().clFlush(queue_));
      !status.ok()) {
    return Fail(std::move(status));
  }
  return absl::OkStatus();
}

void OpenClWork::AwaitLast() {
  bool set = false;
  AwaitEvent(context_->api(), commands_.back().event, [&] {
    if (set || stop_ == nullptr || !stop_->stopped()) return;
    words_.Set(true);
    set = true;
  });
  if (set) words_.Set(false);
}

absl::Status OpenClWork::Outcome(const Command& command) {
  const OpenClApi& api = context_->api();
  ClInt status = kClComplete;
  UOPD_TRY(context_->Check("clGetEventInfo", api.clGetEventInfo(command.event, kClEventStatus,
                                                                sizeof status, &status, nullptr)));
  // A negative status is the code of the error.
  if (status < kClComplete) {
    return WithFrame(context_->Check("clGetEventInfo", status),
                     absl::StrCat("executing: ", command.what));
  }
  if (command.maybe_duration_ns == nullptr) return absl::OkStatus();
  ClUlong start = 0, end = 0;
  UOPD_TRY(context_->Check("clGetEventProfilingInfo",
                           api.clGetEventProfilingInfo(command.event, kClProfilingStart,
                                                       sizeof start, &start, nullptr)));
  UOPD_TRY(context_->Check(
      "clGetEventProfilingInfo",
      api.clGetEventProfilingInfo(command.event, kClProfilingEnd, sizeof end, &end, nullptr)));
  *command.maybe_duration_ns = end > start ? static_cast<int64_t>(end - start) : 0;
  return absl::OkStatus();
}

absl::Status OpenClWork::Finish() {
  absl::Status first;
  std::string last;
  if (!commands_.empty()) {
    AwaitLast();
    last = commands_.back().what;
  }
  for (const Command& command : commands_) {
    absl::Status status = Outcome(command);
    if (first.ok()) first = std::move(status);
    context_->api().clReleaseEvent(command.event);
  }
  if (first.ok() && !commands_.empty() && stop_ != nullptr && stop_->stopped()) {
    first = IsStopped(last);
  }
  commands_.clear();
  kept_.clear();
  stop_ = nullptr;
  return first;
}

}  // namespace uopd::devices::opencl
