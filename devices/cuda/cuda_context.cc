// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_context.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices::cuda {

bool CudaContext::IsSticky(CuResult result) {
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

absl::StatusOr<std::shared_ptr<CudaContext>> CudaContext::Retain(CudaDriver& driver, int index) {
  const CudaApi& api = driver.api();
  CuDevice device = 0;
  UOPD_TRY(driver.Check(api.cuDeviceGet(&device, index), "cuDeviceGet"));
  std::shared_ptr<CudaContext> context(
      new CudaContext(driver, device, absl::StrCat("CUDA:", index)));
  UOPD_TRY(driver.Check(api.cuDevicePrimaryCtxRetain(&context->handle_, device),
                        "cuDevicePrimaryCtxRetain"));
  return context;
}

CudaContext::~CudaContext() {
  if (handle_ == nullptr) return;
  if (Enter()) {
    MutexLock lock(mu_);
    for (auto& idle : idle_events_) {
      for (CuEvent event : idle) api().cuEventDestroy_v2(event);
    }
  }
  // Also of a context that was reset: a reset keeps the count of its users.
  api().cuDevicePrimaryCtxRelease_v2(device_);
}

absl::Status CudaContext::status() const {
  if (!lost()) return absl::OkStatus();
  MutexLock lock(mu_);
  return status_;
}

void CudaContext::Lose(absl::Status why) {
  MutexLock lock(mu_);
  if (!status_.ok()) return;
  status_ = std::move(why);
  lost_.store(true, std::memory_order_release);
}

bool CudaContext::Enter() {
  if (lost()) return false;
  return Check(api().cuCtxSetCurrent(handle_), "cuCtxSetCurrent").ok();
}

absl::Status CudaContext::Check(CuResult result, const char* call) {
  if (result == kSuccess) return absl::OkStatus();
  if (!IsSticky(result)) return driver_.Check(result, call);
  Lose(absl::UnavailableError(absl::StrCat("The device ", name_, " is lost: ", call, " fails with ",
                                           driver_.NameOf(result), ".")));
  return status();
}

absl::StatusOr<CuStream> CudaContext::NewStream() {
  if (!Enter()) return status();
  CuStream stream = nullptr;
  UOPD_TRY(Check(api().cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
  MutexLock lock(mu_);
  streams_.push_back(stream);
  return stream;
}

void CudaContext::DestroyStream(CuStream stream) {
  if (!Enter()) return;  // CheckIdle still asks for it
  {
    MutexLock lock(mu_);
    std::erase(streams_, stream);
  }
  Check(api().cuStreamDestroy_v2(stream), "cuStreamDestroy_v2").IgnoreError();
}

absl::Status CudaContext::CheckIdle() {
  api().cuCtxSetCurrent(handle_);
  MutexLock lock(mu_);
  for (CuStream stream : streams_) {
    if (api().cuStreamQuery(stream) != kNotReady) continue;
    return absl::UnavailableError(absl::StrCat("The device ", name_,
                                               " is lost, and a kernel still runs on it (",
                                               std::string(status_.message()), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CuEvent> CudaContext::TakeEvent(bool timed) {
  {
    MutexLock lock(mu_);
    auto& idle = idle_events_[timed ? 1 : 0];
    if (!idle.empty()) {
      CuEvent event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  CuEvent event = nullptr;
  UOPD_TRY(Check(api().cuEventCreate(&event, timed ? kEventDefault : kEventDisableTiming),
                 "cuEventCreate"));
  return event;
}

void CudaContext::GiveEvent(CuEvent event, bool timed) {
  MutexLock lock(mu_);
  idle_events_[timed ? 1 : 0].push_back(event);
}

absl::StatusOr<std::shared_ptr<CudaEvent>> CudaEvent::Record(std::shared_ptr<CudaContext> context,
                                                             CuStream stream, bool timed) {
  UOPD_ASSIGN(const CuEvent event, context->TakeEvent(timed));
  std::shared_ptr<CudaEvent> out(new CudaEvent(context, event, timed));
  UOPD_TRY(context->Check(context->api().cuEventRecord(event, stream), "cuEventRecord"));
  return out;
}

bool CudaEvent::Reached() {
  if (context_->lost()) return true;
  const CuResult result = context_->api().cuEventQuery(event_);
  if (result == kNotReady) return false;
  // Another code than a sticky one would come for ever: the event is of no use, and so is what lies
  // before it.
  const absl::Status status = context_->Check(result, "cuEventQuery");
  if (!status.ok()) {
    context_->Lose(absl::UnavailableError(absl::StrCat(
        "The device ", context_->name(), " is lost: ", std::string(status.message()))));
  }
  return true;
}

absl::StatusOr<int64_t> CudaEvent::Since(const CudaEvent& start) {
  float milliseconds = 0;
  UOPD_TRY(context_->Check(context_->api().cuEventElapsedTime(&milliseconds, start.event_, event_),
                           "cuEventElapsedTime"));
  return std::llround(double{milliseconds} * 1e6);
}

}  // namespace uopd::devices::cuda
