// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_stop_words.h"

#include <algorithm>
#include <atomic>

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

}  // namespace uopd::devices::opencl
