// SPDX-License-Identifier: MIT
// A kernel that is loaded on an OpenCL device. It keeps its device. Thread-safe: streams that
// launch the same kernel take turns, since the arguments are part of OpenCL's kernel object.
//
// Arguments of a kernel: one pointer for each buffer, one long for each variable, and a pointer to
// the stop word, an int. A block is a work group, and grid x block work items are launched.
#pragma once
#include <memory>
#include <span>

#include "core/base/mutex.h"
#include "devices/api/device.h"
#include "devices/opencl/opencl_program.h"

namespace uopd::devices::opencl {

class OpenClExecutable final : public Executable {
 public:
  // INTERNAL: the program has no such entry, or the entry takes another number of arguments.
  static absl::StatusOr<std::shared_ptr<OpenClExecutable>> Make(
      std::shared_ptr<Device> device, std::shared_ptr<OpenClContext> context, OpenClProgram program,
      const KernelCode& kernel_code);
  ~OpenClExecutable() override;

  // Queues a launch. `pointers` are addresses in shared virtual memory. The caller releases *event.
  absl::Status Enqueue(ClQueue* queue, const LaunchShape& shape, std::span<void* const> pointers,
                       std::span<const int64_t> vars, const int32_t* stop_word, ClEvent** event)
      UOPD_EXCLUDES(mu_);

 private:
  OpenClExecutable(std::shared_ptr<Device> device, std::shared_ptr<OpenClContext> context,
                   OpenClProgram program, ClKernel* kernel, const KernelCode& kernel_code)
      : Executable(std::move(device), kernel_code.entry, kernel_code.args),
        context_(std::move(context)),
        program_(std::move(program)),
        kernel_(kernel) {}
  absl::Status SetArguments(std::span<void* const> pointers, std::span<const int64_t> vars,
                            const int32_t* stop_word) UOPD_REQUIRES(mu_);

  const std::shared_ptr<OpenClContext> context_;
  const OpenClProgram program_;
  ClKernel* const kernel_;
  Mutex mu_;
};

}  // namespace uopd::devices::opencl
