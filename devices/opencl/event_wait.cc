// SPDX-License-Identifier: MIT
#include "devices/opencl/event_wait.h"

#include <chrono>
#include <condition_variable>
#include <memory>

#include "core/base/mutex.h"

namespace uopd::devices::opencl {
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

}  // namespace

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

}  // namespace uopd::devices::opencl
