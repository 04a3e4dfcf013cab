// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_compiler.h"

#include "core/base/text.h"
#include "core/base/work_limits.h"
#include "server/engine/base/recent_failures.h"
#include "server/worker/job/compile_job.h"

namespace uopd::engine {

using worker::JobResult;

absl::StatusOr<std::string> KernelCompiler::Compile(const devices::Device& device,
                                                    const std::string& kernel,
                                                    const std::string& source,
                                                    const WorkLimits& limits, bool draft) {
  const std::string frame = Cat("compiling kernel ", kernel);
  if (supervisor_ == nullptr) {
    auto object = CompileHere(device, source, draft);
    UOPD_TRY(WithFrame(object.status(), frame));
    return object;
  }
  const worker::CompileRequest request{device.info().name, device.target().toolchain, source,
                                       draft};
  JobResult result =
      supervisor_->Run(request.ToJob(time_limit_), limits.Or([&] { return stopped_.load(); }));
  if (result.no_worker || result.passing) {
    return absl::UnavailableError(Cat(StatusText(result.status), " (while ", frame, ")"));
  }
  switch (result.outcome) {
    case JobResult::kDone:
      return std::move(result.bytes);
    case JobResult::kFailed:
      if (!result.refused) return WithFrame(result.status, frame);
      break;
    case JobResult::kCancelled:
      if (!stopped_.load()) return CancelledByCaller();
      return absl::CancelledError(Cat("the daemon stops while ", frame));
    case JobResult::kTimedOut:
      // The caller's deadline passed, not the time limit of the job itself.
      if (!result.quarantined && std::chrono::steady_clock::now() >= limits.deadline)
        return DeadlinePassed();
      break;
    case JobResult::kCrashed:
      break;
  }
  // Do not use the job's status code: a client that tries again would get the same failure.
  return InQuarantine(absl::InternalError(
      Cat("the compiler fails on kernel ", kernel, ": ", StatusText(result.status))));
}

absl::StatusOr<std::string> KernelCompiler::CompileHere(const devices::Device& device,
                                                        const std::string& source,
                                                        bool draft) const {
  if (stopped_.load()) return absl::CancelledError("the daemon stops");
  const devices::Compiler& compiler = device.compiler();
  return draft ? compiler.CompileDraft(source) : compiler.Compile(source);
}

}  // namespace uopd::engine
