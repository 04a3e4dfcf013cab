// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_context.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices::gpu {

bool GpuContext::IsSticky(GpuResult result) {
  switch (result) {
    case kDeinitialized:
    case kDeviceUnavailable:
    case kInvalidContext:
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kContained:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
    case kTensorMemoryLeak:
    case kUnknown:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::shared_ptr<GpuContext>> GpuContext::Retain(GpuDriver& driver, int index) {
  const GpuApi& api = driver.api();
  int device = 0;
  UOPD_TRY(driver.Check(api.DeviceGet(&device, index)));
  std::shared_ptr<GpuContext> context(
      new GpuContext(driver, device, absl::StrCat(api.prefix, ":", index)));
  UOPD_TRY(driver.Check(api.RetainContext(&context->handle_, device)));
  return context;
}

GpuContext::~GpuContext() {
  if (handle_ == nullptr) return;
  if (Enter()) {
    MutexLock lock(mu_);
    for (auto& idle : idle_events_) {
      for (EventHandle event : idle) api().EventDestroy(event);
    }
  }
  // Also of a context that was reset: a reset keeps the count of its users.
  api().ReleaseContext(device_);
}

absl::Status GpuContext::status() const {
  if (!lost()) return absl::OkStatus();
  MutexLock lock(mu_);
  return status_;
}

void GpuContext::Lose(absl::Status why) {
  MutexLock lock(mu_);
  if (!status_.ok()) return;
  status_ = std::move(why);
  lost_.store(true, std::memory_order_release);
}

bool GpuContext::Enter() {
  if (lost()) return false;
  return Check(api().SetCurrent(handle_)).ok();
}

absl::Status GpuContext::Check(GpuResult result, const char* call) {
  if (result == kSuccess) return absl::OkStatus();
  if (!IsSticky(result)) return driver_.Check(result, call);
  Lose(absl::UnavailableError(absl::StrCat("The device ", name_, " is lost: ", call, " fails with ",
                                           driver_.NameOf(result))));
  return status();
}

bool GpuContext::Reaches(GpuContext& source) {
  if (!api().has_peers() || &source.driver_ != &driver_) return false;
  MutexLock lock(peers_mu_);
  std::erase_if(peers_, [](const auto& peer) { return peer.first.expired(); });
  for (const auto& [peer, reached] : peers_) {
    if (peer.lock().get() == &source) return reached;
  }
  int can = 0;
  bool reached = Check(api().CanAccessPeer(&can, device_, source.device_)).ok() && can != 0;
  if (reached) {
    const GpuOutcome enabled = api().EnablePeer(source.handle_, 0);
    reached = enabled.result == kPeerAlreadyEnabled || Check(enabled).ok();
  }
  peers_.emplace_back(source.weak_from_this(), reached);
  return reached;
}

absl::StatusOr<StreamHandle> GpuContext::NewStream() {
  if (!Enter()) return status();
  StreamHandle stream = nullptr;
  UOPD_TRY(Check(api().StreamCreate(&stream, kStreamNonBlocking)));
  MutexLock lock(mu_);
  streams_.push_back(stream);
  return stream;
}

void GpuContext::DestroyStream(StreamHandle stream) {
  if (!Enter()) return;  // CheckIdle still asks for it
  {
    MutexLock lock(mu_);
    std::erase(streams_, stream);
  }
  Check(api().StreamDestroy(stream)).IgnoreError();
}

absl::Status GpuContext::CheckIdle() {
  api().SetCurrent(handle_);
  MutexLock lock(mu_);
  for (StreamHandle stream : streams_) {
    if (api().StreamQuery(stream).result != kNotReady) continue;
    return absl::UnavailableError(absl::StrCat("The device ", name_,
                                               " is lost, and a kernel still runs on it (",
                                               std::string(status_.message()), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<EventHandle> GpuContext::TakeEvent(bool timed) {
  {
    MutexLock lock(mu_);
    auto& idle = idle_events_[timed ? 1 : 0];
    if (!idle.empty()) {
      EventHandle event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  EventHandle event = nullptr;
  UOPD_TRY(Check(api().EventCreate(&event, timed ? kEventDefault : kEventDisableTiming)));
  return event;
}

void GpuContext::GiveEvent(EventHandle event, bool timed) {
  MutexLock lock(mu_);
  idle_events_[timed ? 1 : 0].push_back(event);
}

absl::StatusOr<std::shared_ptr<GpuEvent>> GpuEvent::Record(std::shared_ptr<GpuContext> context,
                                                           StreamHandle stream, bool timed) {
  UOPD_ASSIGN(EventHandle event, context->TakeEvent(timed));
  std::shared_ptr<GpuEvent> out(new GpuEvent(context, event, timed));
  UOPD_TRY(context->Check(context->api().EventRecord(event, stream)));
  return out;
}

bool GpuEvent::Reached() {
  if (context_->lost()) return true;
  const GpuOutcome outcome = context_->api().EventQuery(event_);
  if (outcome.result == kNotReady) return false;
  // Another code than a sticky one would come for ever: the event is of no use, and so is what lies
  // before it.
  const absl::Status status = context_->Check(outcome);
  if (!status.ok()) {
    context_->Lose(absl::UnavailableError(absl::StrCat(
        "The device ", context_->name(), " is lost: ", std::string(status.message()))));
  }
  return true;
}

absl::StatusOr<int64_t> GpuEvent::Since(const GpuEvent& start) {
  float milliseconds = 0;
  UOPD_TRY(context_->Check(context_->api().EventElapsed(&milliseconds, start.event_, event_)));
  return std::llround(double{milliseconds} * 1e6);
}

}  // namespace uopd::devices::gpu
