// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_executable.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices::opencl {

absl::StatusOr<std::shared_ptr<OpenClExecutable>> OpenClExecutable::Make(
    std::shared_ptr<Device> device, std::shared_ptr<OpenClContext> context, OpenClProgram program,
    const KernelCode& kernel_code) {
  const OpenClApi& api = context->api();
  ClInt code = kClSuccess;
  ClKernel* kernel = api.clCreateKernel(program.get(), kernel_code.entry.c_str(), &code);
  UOPD_TRY(WithFrame(context->Check("clCreateKernel", code),
                     absl::StrCat("loading kernel ", kernel_code.entry)));
  std::shared_ptr<OpenClExecutable> out(
      new OpenClExecutable(std::move(device), context, std::move(program), kernel, kernel_code));
  ClUint takes = 0;
  UOPD_TRY(context->Check("clGetKernelInfo", api.clGetKernelInfo(kernel, kClKernelNumArgs,
                                                                 sizeof takes, &takes, nullptr)));
  const auto wanted = static_cast<ClUint>(kernel_code.args.buffers + kernel_code.args.vars + 1);
  if (takes != wanted) {
    return absl::InternalError(absl::StrCat("Kernel ", kernel_code.entry, " takes ", takes,
                                            " arguments, and is to take ", wanted, ": ",
                                            kernel_code.args.buffers, " buffers, ",
                                            kernel_code.args.vars, " variables and the stop word"));
  }
  return out;
}

OpenClExecutable::~OpenClExecutable() { context_->api().clReleaseKernel(kernel_); }

absl::Status OpenClExecutable::SetArguments(std::span<void* const> pointers,
                                            std::span<const int64_t> vars,
                                            const int32_t* stop_word) {
  const OpenClApi& api = context_->api();
  ClUint index = 0;
  for (void* pointer : pointers) {
    UOPD_TRY(context_->Check("clSetKernelArgSVMPointer",
                             api.clSetKernelArgSVMPointer(kernel_, index++, pointer)));
  }
  for (const int64_t& var : vars) {
    UOPD_TRY(
        context_->Check("clSetKernelArg", api.clSetKernelArg(kernel_, index++, sizeof var, &var)));
  }
  return context_->Check("clSetKernelArgSVMPointer",
                         api.clSetKernelArgSVMPointer(kernel_, index, stop_word));
}

absl::Status OpenClExecutable::Enqueue(ClQueue* queue, const LaunchShape& shape,
                                       std::span<void* const> pointers,
                                       std::span<const int64_t> vars, const int32_t* stop_word,
                                       ClEvent** event) {
  size_t global[3], local[3];
  for (int i = 0; i < 3; ++i) {
    local[i] = static_cast<size_t>(shape.block[i]);
    global[i] = static_cast<size_t>(shape.grid[i]) * local[i];
  }
  MutexLock lock(mu_);
  absl::Status status = SetArguments(pointers, vars, stop_word);
  if (status.ok()) {
    status = context_->Check("clEnqueueNDRangeKernel",
                             context_->api().clEnqueueNDRangeKernel(
                                 queue, kernel_, 3, nullptr, global, local, 0, nullptr, event));
  }
  return WithFrame(std::move(status), absl::StrCat("launching kernel ", entry()));
}

}  // namespace uopd::devices::opencl
